// SPDX-License-Identifier: GPL-2.0
/*
 * The switch between the two implementations of direct I/O: the functions that
 * file systems call, iomap_dio= on the command line, and /sys/kernel/iomap/dio_impl.
 */
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/printk.h>
#include <linux/sysfs.h>
#include "direct_io_glue.h"
#include "direct_io_compare.h"

static DEFINE_STATIC_KEY_MAYBE(CONFIG_IOMAP_DIO_DEFAULT_C, iomap_dio_use_c);

/*
 * The implementation that began a request also completes it.  The switch may have
 * changed since, so this reads the first word of the request instead.
 */
static bool iomap_dio_is_rust(const void *dio)
{
	return *(const unsigned long *)dio == IOMAP_DIO_RUST_MARK;
}

ssize_t iomap_dio_rw(struct kiocb *iocb, struct iov_iter *iter,
		const struct iomap_ops *ops, const struct iomap_dio_ops *dops,
		unsigned int dio_flags, void *private, size_t done_before)
{
	if (static_branch_maybe(CONFIG_IOMAP_DIO_DEFAULT_C, &iomap_dio_use_c))
		return c_iomap_dio_rw(iocb, iter, ops, dops, dio_flags,
				private, done_before);
	return rust_iomap_dio_rw(iocb, iter, ops, dops, dio_flags, private,
			done_before);
}

struct iomap_dio *__iomap_dio_rw(struct kiocb *iocb, struct iov_iter *iter,
		const struct iomap_ops *ops, const struct iomap_dio_ops *dops,
		unsigned int dio_flags, void *private, size_t done_before)
{
	if (static_branch_maybe(CONFIG_IOMAP_DIO_DEFAULT_C, &iomap_dio_use_c))
		return c___iomap_dio_rw(iocb, iter, ops, dops, dio_flags,
				private, done_before);
	return rust___iomap_dio_rw(iocb, iter, ops, dops, dio_flags, private,
			done_before);
}

ssize_t __iomap_dio_read_simple(struct kiocb *iocb, struct iov_iter *iter,
		struct iomap_iter *iomi)
{
	if (static_branch_maybe(CONFIG_IOMAP_DIO_DEFAULT_C, &iomap_dio_use_c))
		return c___iomap_dio_read_simple(iocb, iter, iomi);
	return rust___iomap_dio_read_simple(iocb, iter, iomi);
}

ssize_t iomap_dio_complete(struct iomap_dio *dio)
{
	if (iomap_dio_is_rust(dio))
		return rust_iomap_dio_complete(dio);
	return c_iomap_dio_complete(dio);
}

void iomap_dio_bio_end_io(struct bio *bio)
{
	if (iomap_dio_is_rust(bio->bi_private))
		rust_iomap_dio_bio_end_io(bio);
	else
		c_iomap_dio_bio_end_io(bio);
}

u32 iomap_finish_ioend_direct(struct iomap_ioend *ioend)
{
	if (iomap_dio_is_rust(ioend->io_bio.bi_private))
		return rust_iomap_finish_ioend_direct(ioend);
	return c_iomap_finish_ioend_direct(ioend);
}

static ssize_t dio_impl_show(struct kobject *kobj, struct kobj_attribute *attr,
		char *buf)
{
	return sysfs_emit(buf, "%s\n",
			static_key_enabled(&iomap_dio_use_c) ? "c" : "rust");
}

void iomap_dio_choose(bool c)
{
	if (c)
		static_branch_enable(&iomap_dio_use_c);
	else
		static_branch_disable(&iomap_dio_use_c);
}

static int iomap_dio_choose_by_name(const char *name)
{
	bool c = sysfs_streq(name, "c");

	if (!c && !sysfs_streq(name, "rust"))
		return -EINVAL;
	iomap_dio_choose(c);
	return 0;
}

static ssize_t dio_impl_store(struct kobject *kobj, struct kobj_attribute *attr,
		const char *buf, size_t count)
{
	return iomap_dio_choose_by_name(buf) ?: count;
}

static int __init iomap_dio_setup(char *name)
{
	if (iomap_dio_choose_by_name(name))
		pr_warn("iomap_dio=%s is neither c nor rust\n", name);
	return 1;
}
__setup("iomap_dio=", iomap_dio_setup);

static struct kobj_attribute dio_impl_attr = __ATTR_RW(dio_impl);

static int __init iomap_dio_switch_init(void)
{
	struct kobject *kobj = kobject_create_and_add("iomap", kernel_kobj);
	int error;

	if (!kobj)
		return -ENOMEM;
	error = sysfs_create_file(kobj, &dio_impl_attr.attr);
	if (error)
		kobject_put(kobj);
	return error;
}
fs_initcall(iomap_dio_switch_init);
