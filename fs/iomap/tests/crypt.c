// SPDX-License-Identifier: GPL-2.0
/*
 * Encryption of the simulated file, inline by the disk or by the block layer.
 *
 * The file always has its key.  Each script sets S_ENCRYPTED or not, and chooses
 * whether the disk can encrypt; otherwise the block layer does
 * (block/blk-crypto-fallback.c).
 */
#include <linux/blk-crypto-profile.h>
#include <linux/blk-crypto.h>
#include <linux/fscrypt.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "world.h"

struct crypt_inode {
	struct inode inode;
	struct fscrypt_inode_info *info;
};

static struct blk_crypto_profile *profile;
static struct block_device *disk;
static u8 key_identifier[FSCRYPT_KEY_IDENTIFIER_SIZE];

static int crypt_get_context(struct inode *inode, void *ctx, size_t len)
{
	/* The on-disk format: a policy followed by a nonce. */
	struct {
		struct fscrypt_policy_v2 policy;
		u8 nonce[16];
	} context = {
		.policy = {
			.version			= FSCRYPT_POLICY_V2,
			.contents_encryption_mode	= FSCRYPT_MODE_AES_256_XTS,
			.filenames_encryption_mode	= FSCRYPT_MODE_AES_256_CTS,
		},
		.nonce = "iomap dio nonce",
	};

	memcpy(context.policy.master_key_identifier, key_identifier, sizeof(key_identifier));
	if (len < sizeof(context))
		return -ERANGE;
	memcpy(ctx, &context, sizeof(context));
	return sizeof(context);
}

static unsigned int crypt_get_devices(struct super_block *sb,
		struct block_device *devs[FSCRYPT_MAX_DEVICES])
{
	devs[0] = disk;
	return 1;
}

static const struct fscrypt_operations crypt_ops = {
	.inode_info_offs	= offsetof(struct crypt_inode, info),
	.is_block_based		= 1,
	.get_context		= crypt_get_context,
	.get_devices		= crypt_get_devices,
};

struct inode *crypt_alloc_inode(struct super_block *sb)
{
	struct crypt_inode *ci = kzalloc_obj(*ci);

	if (!ci)
		return NULL;
	inode_init_once(&ci->inode);
	return &ci->inode;
}

void crypt_free_inode(struct inode *inode)
{
	kfree(container_of(inode, struct crypt_inode, inode));
}

void crypt_evict_inode(struct inode *inode)
{
	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	fscrypt_put_encryption_info(inode);
}

int crypt_make(struct super_block *sb, struct block_device *bdev)
{
	int error;

	profile = kzalloc_obj(*profile);
	if (!profile)
		return -ENOMEM;
	error = blk_crypto_profile_init(profile, 0);
	if (error) {
		kfree(profile);
		return error;
	}
	disk = bdev;
	profile->max_dun_bytes_supported = 8;
	profile->key_types_supported = BLK_CRYPTO_KEY_TYPE_RAW;
	if (!blk_crypto_register(profile, bdev_get_queue(bdev)))
		return -EINVAL;
	sb->s_cop = &crypt_ops;
	sb->s_flags |= SB_INLINECRYPT;
	return 0;
}

void crypt_unmake(void)
{
	if (!disk)
		return;
	bdev_get_queue(disk)->crypto_profile = NULL;
	disk = NULL;
	blk_crypto_profile_destroy(profile);
	kfree(profile);
}

int crypt_make_key(struct file *file, void __user *memory)
{
	struct inode *inode = file_inode(file);
	struct fscrypt_add_key_arg __user *uarg = memory;
	struct fscrypt_add_key_arg arg = {
		.key_spec.type	= FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER,
		.raw_size	= FSCRYPT_MAX_KEY_SIZE,
	};
	u8 raw[FSCRYPT_MAX_KEY_SIZE];
	int error;

	memset(raw, 0x42, sizeof(raw));
	if (copy_to_user(uarg, &arg, sizeof(arg)) || copy_to_user(uarg->raw, raw, sizeof(raw)))
		return -EFAULT;
	error = fscrypt_ioctl_add_key(file, uarg);
	if (error)
		return error;
	if (copy_from_user(key_identifier, uarg->key_spec.u.identifier, sizeof(key_identifier)))
		return -EFAULT;
	/* While the disk cannot encrypt, opening prepares the fallback of the block layer. */
	inode->i_flags |= S_ENCRYPTED;
	error = fscrypt_file_open(inode, file);
	inode->i_flags &= ~S_ENCRYPTED;
	return error;
}

void crypt_set_disk(bool can)
{
	if (disk)
		profile->modes_supported[BLK_ENCRYPTION_MODE_AES_256_XTS] = can ? 4096 : 0;
}

void crypt_say(struct bio *bio)
{
	const struct bio_crypt_ctx *ctx = bio->bi_crypt_context;

	if (ctx)
		say(" dun=%llu", ctx->bc_dun[0]);
}
