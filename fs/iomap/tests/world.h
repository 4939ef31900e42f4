/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interfaces between the parts of the simulated world.
 */
#ifndef _IOMAP_TESTS_WORLD_H
#define _IOMAP_TESTS_WORLD_H

#include <linux/compiler_attributes.h>
#include <linux/types.h>

struct bio;
struct block_device;
struct file;
struct inode;
struct super_block;

/* Appends to the record. */
__printf(1, 2) void say(const char *fmt, ...);

/*
 * Between allocs_begin() and allocs_end() the allocations of this thread are recorded.
 * Allocation number @fail fails, counted from 1; 0 is none.  allocs_forget() records
 * those that were not freed.
 */
void allocs_begin(unsigned int fail);
void allocs_end(void);
void allocs_forget(void);
void allocs_probes(bool on);

#ifdef CONFIG_FS_ENCRYPTION
struct inode *crypt_alloc_inode(struct super_block *sb);
void crypt_free_inode(struct inode *inode);
void crypt_evict_inode(struct inode *inode);

/* Prepares @sb for inodes with a key, and @bdev for inline encryption. */
int crypt_make(struct super_block *sb, struct block_device *bdev);
void crypt_unmake(void);

/* Gives @file a key.  @memory is user memory of this thread. */
int crypt_make_key(struct file *file, void __user *memory);

/* Chooses between encryption by the disk (@can) and by the block layer. */
void crypt_set_disk(bool can);

/* Records the encryption context of @bio. */
void crypt_say(struct bio *bio);
#else
#define crypt_alloc_inode	NULL
#define crypt_free_inode	NULL
#define crypt_evict_inode	NULL
static inline int crypt_make(struct super_block *sb, struct block_device *bdev)
{
	return 0;
}
static inline void crypt_unmake(void) { }
static inline int crypt_make_key(struct file *file, void __user *memory)
{
	return 0;
}
static inline void crypt_set_disk(bool can) { }
static inline void crypt_say(struct bio *bio) { }
#endif

#endif /* _IOMAP_TESTS_WORLD_H */
