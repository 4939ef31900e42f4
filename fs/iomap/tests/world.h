/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the world that scripts are played in share.
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

/* Adds to the record. */
__printf(1, 2) void say(const char *fmt, ...);

/*
 * From here to allocs_end() the memory allocations of this thread are counted, and
 * number @fail, from 1, fails if that is not 0.  The record has them, and those that
 * have not been freed by allocs_forget().
 */
void allocs_begin(unsigned int fail);
void allocs_end(void);
void allocs_forget(void);
void allocs_probes(bool on);

#ifdef CONFIG_FS_ENCRYPTION
struct inode *crypt_alloc_inode(struct super_block *sb);
void crypt_free_inode(struct inode *inode);
void crypt_evict_inode(struct inode *inode);

/* The inodes of @sb can have a key, and @bdev can do without the block layer encrypting. */
int crypt_make(struct super_block *sb, struct block_device *bdev);
void crypt_unmake(void);

/* Gives @file a key.  @memory is some that this thread can use as a user process can. */
int crypt_make_key(struct file *file, void __user *memory);

/* Can the disk encrypt from now on, or does the block layer do it? */
void crypt_set_disk(bool can);

/* Adds to the record what the disk is told about the encryption of @bio. */
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
