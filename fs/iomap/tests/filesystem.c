// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated file system, of one file: its answers are those of the script.
 */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs_context.h>
#include <linux/iomap.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/pseudo_fs.h>
#include <linux/writeback.h>
#include "../internal.h"
#include "world.h"

static const u16 map_types[NR_MAP] = {
	[MAP_MAPPED]	= IOMAP_MAPPED,
	[MAP_UNWRITTEN]	= IOMAP_UNWRITTEN,
	[MAP_HOLE]	= IOMAP_HOLE,
	[MAP_DELALLOC]	= IOMAP_DELALLOC,
	[MAP_INLINE]	= IOMAP_INLINE,
	[MAP_UNKNOWN]	= 77,
};

/* The answer to a call, by its number.  A script without answers has an empty one. */
static const struct script_map *answer(unsigned int call)
{
	return &w.s->map[w.s->maps ? min_t(unsigned int, call, w.s->maps - 1) : 0];
}

int fs_begin(struct inode *inode, loff_t pos, loff_t length, unsigned int flags,
		struct iomap *iomap, struct iomap *srcmap)
{
	/* Of the source, a simple read says only that there is none. */
	size_t clear = w.s->op == OP_SIMPLE && !w.maps ? 0 : sizeof(*srcmap);
	const struct script_map *m = answer(w.maps++);

	say("begin pos=%lld len=%lld flags=%x", pos, length, flags);
	if (memchr_inv(iomap, 0, sizeof(*iomap)) || memchr_inv(srcmap, 0, clear) ||
	    srcmap->type != IOMAP_HOLE)
		say(" old mapping");
	say_state_and_where();
	if (inode != w.inode)
		say("another inode\n");
	/* Stop: with mappings of one byte the rest would take minutes. */
	if (w.rec->full)
		return -EIO;
	if (m->size)
		i_size_write(inode, m->size == EMPTY ? 0 : m->size);
	if (m->error)
		return m->error;

	iomap->offset = max_t(loff_t, pos - m->before, 0);
	iomap->length = pos - iomap->offset + (m->len ?: length + SZ_1M);
	iomap->type = map_types[m->type];
	iomap->flags = m->flags;
	iomap->addr = FILE_START + iomap->offset;
	if (m->flags & IOMAP_F_ANON_WRITE || m->type == MAP_HOLE || m->type == MAP_DELALLOC ||
	    m->type == MAP_INLINE)
		iomap->addr = IOMAP_NULL_ADDR;
	if (!m->nothing) {
		iomap->bdev = w.disk->part0;
		if (m->type == MAP_INLINE)
			iomap->inline_data = w.inline_data;
	}
	if (m->src) {
		*srcmap = *iomap;
		srcmap->type = IOMAP_MAPPED;
		srcmap->length = min_t(u64, iomap->length, pos - iomap->offset + m->src);
	}
	if (flags & IOMAP_WRITE)
		CUT_NOTE(.what = CUT_MAP, .from = pos, .size = pos + length, .n = m->type,
			 .to = min_t(loff_t, pos + length,
				     iomap->offset + (m->src ? srcmap : iomap)->length),
			 .flags = m->flags);
	return 0;
}

static int fs_end(struct inode *inode, loff_t pos, loff_t length, ssize_t written,
		unsigned int flags, struct iomap *iomap)
{
	say("end pos=%lld len=%lld written=%zd flags=%x", pos, length, written, flags);
	say_state_and_where();
	return answer(w.maps - 1)->end;
}

static DEFINE_IOMAP_ITER_NEXT_END(fs_next, fs_begin, fs_end)
static DEFINE_IOMAP_ITER_NEXT(fs_begins, fs_begin)

const struct iomap_ops fs_ops = { .iomap_begin = fs_begin, .iomap_end = fs_end };
const struct iomap_ops fs_ops_no_end = { .iomap_begin = fs_begin };
const struct iomap_ops fs_ops_next = { .iomap_next = fs_next };
/* As ext4, XFS and f2fs have it */
const struct iomap_ops fs_ops_both = { .iomap_begin = fs_begin, .iomap_next = fs_begins };

int fs_end_io(struct kiocb *iocb, ssize_t size, int error, unsigned int flags)
{
	int ret = w.s->end_io == 2 ? w.s->end_io_ret : error;

	if (!strcmp(where(), "submit"))
		w.answered = true;
	say("end_io size=%zd error=%d flags=%x%s%s", size, error, flags,
	    iocb != &w.iocb ? " another iocb" : "", current->plug ? " plug" : "");
	say_iocb();
	say_state_and_where();
	CUT_NOTE(.what = CUT_TOLD, .from = w.iocb.ki_pos, .to = w.iocb.ki_pos + size,
		 .flags = flags, .size = i_size_read(w.inode), .error = error ?: ret,
		 .hidden = error && !ret);
	return ret;
}

static void hooked_end_io(struct bio *bio)
{
	struct held_bio *held = bio->bi_private;

	say("hook %s\n", where());
	bio->bi_private = held->private;
	bio->bi_end_io = held->end_io;
	iomap_dio_bio_end_io(bio);
}

static void ioend_work(struct work_struct *work)
{
	struct held_bio *held = container_of(work, struct held_bio, ioend_work);
	struct iomap_ioend *ioend = iomap_ioend_from_bio(held->ioend);
	int error = blk_status_to_errno(held->ioend->bi_status);

	w.ioend_task = current;
	say("ioend bio%td\n", held - w.bios);
	if (w.s->ioend_alone) {
		ioend->io_error = error ?: w.s->ioend_error;
		say("ioend over, vecs=%u\n", iomap_finish_ioend_direct(ioend));
	} else {
		iomap_finish_ioends(ioend, error);
	}
	w.ioend_task = NULL;
}

static void ioend_end_io(struct bio *bio)
{
	struct held_bio *held;

	for (held = &w.bios[w.nr_bios - 1]; held > w.bios; held--)
		if (held->seen == bio)
			break;
	held->ioend = bio;
	INIT_WORK(&held->ioend_work, ioend_work);
	queue_work(w.ioend_wq, &held->ioend_work);
}

void fs_submit_io(const struct iomap_iter *iter, struct bio *bio, loff_t pos)
{
	unsigned int n = bio_number(bio);

	if (n == WORLD_BIOS) {
		submit_bio(bio);
		return;
	}
	say("submit_io bio%u pos=%lld sector=%llu iter pos=%lld len=%llu%s private=%s", n, pos,
	    (u64)bio->bi_iter.bi_sector, iter->pos, iter->len,
	    iter->inode != w.inode ? " another inode" : "", private_name(iter->private));
	say_opf(bio->bi_opf);
	crypt_say(bio);
	say(" %s\n", where());
	w.bios[n].pos = pos;
	if (bio->bi_iter.bi_sector > DISK_SECTORS)
		bio->bi_iter.bi_sector = 0;
	switch (w.s->submit) {
	case SUBMIT_HOOKED:
		w.bios[n].private = bio->bi_private;
		w.bios[n].end_io = bio->bi_end_io;
		bio->bi_private = &w.bios[n];
		bio->bi_end_io = hooked_end_io;
		break;
	case SUBMIT_IOEND:
		iomap_init_ioend(iter->inode, bio, pos, IOMAP_IOEND_DIRECT);
		bio->bi_end_io = ioend_end_io;
		break;
	default:
		break;
	}
	submit_bio(bio);
	if (!w.bios[n].came) {
		/* The block layer has refused the bio. Let the worker handle that first. */
		w.bios[n].bio = NULL;
		WRITE_ONCE(w.ending, true);
		flush_workqueue(w.ioend_wq);
		WRITE_ONCE(w.ending, false);
	}
}

static int fs_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	say("fsync %lld-%lld datasync=%d", start, end, datasync);
	say_state_and_where();
	if (!w.s->fsync_error)
		CUT_NOTE(.what = CUT_FLUSHED, .from = start, .to = end + 1, .n = datasync);
	return w.s->fsync_error;
}

static int fs_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct folio *folio = NULL;
	int error = 0;

	/* Do not record the flusher. */
	if (current == w.player->task) {
		say("writepages %lld-%lld\n", wbc->range_start, wbc->range_end);
		if (w.s && w.s->wb_size)
			i_size_write(mapping->host, w.s->wb_size);
	}
	while ((folio = writeback_iter(mapping, wbc, folio, &error))) {
		folio_start_writeback(folio);
		folio_unlock(folio);
		folio_end_writeback(folio);
	}
	return w.s && w.s->wb_error ? w.s->wb_error : error;
}

static bool fs_release_folio(struct folio *folio, gfp_t gfp)
{
	return false;
}

/* The folio stays dirty, so it cannot be dropped. */
static int fs_launder_folio(struct folio *folio)
{
	say("launder page %lu", folio->index);
	say_state_and_where();
	return 0;
}

static void fs_invalidate_folio(struct folio *folio, size_t offset, size_t len)
{
	if (folio_test_private(folio))
		folio_detach_private(folio);
}

static const struct address_space_operations fs_aops = {
	.dirty_folio		= filemap_dirty_folio,
	.writepages		= fs_writepages,
	.release_folio		= fs_release_folio,
	.invalidate_folio	= fs_invalidate_folio,
	.launder_folio		= fs_launder_folio,
};

void fs_cache_page(unsigned int n, bool dirty, bool stuck)
{
	struct folio *folio = __filemap_get_folio(w.inode->i_mapping,
			(w.s->pos >> PAGE_SHIFT) + n, FGP_LOCK | FGP_ACCESSED | FGP_CREAT,
			GFP_KERNEL);

	if (IS_ERR(folio))
		return;
	folio_mark_uptodate(folio);
	if (stuck && !folio_test_private(folio))
		folio_attach_private(folio, (void *)1);
	if (dirty)
		folio_mark_dirty(folio);
	folio_unlock(folio);
	folio_put(folio);
}

/* Maps a large folio also on architectures without huge pages. */
static int fs_mmap(struct file *file, struct vm_area_struct *vma)
{
	int error = 0;

	for (unsigned int i = 0; i < BIG_PAGES && !error; i++)
		error = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE, w.big + i);
	return error;
}

static const struct file_operations fs_fops = {
	.owner	= THIS_MODULE,
	.fsync	= fs_fsync,
	.mmap	= fs_mmap,
};

static void fs_dirty_inode(struct inode *inode, int flags)
{
	if (flags & I_DIRTY_INODE)
		say("dirty inode size=%lld %s\n", i_size_read(inode), where());
}

static void fs_report_error(const struct fserror_event *event)
{
	int n = atomic_fetch_inc(&w.fserrors);

	if (n < ARRAY_SIZE(w.fserror))
		w.fserror[n] = *event;
}

static const struct super_operations fs_sops = {
	.alloc_inode	= crypt_alloc_inode,
	.free_inode	= crypt_free_inode,
	.evict_inode	= crypt_evict_inode,
	.dirty_inode	= fs_dirty_inode,
	.report_error	= fs_report_error,
	.statfs		= simple_statfs,
};

static int fs_init_fs_context(struct fs_context *fc)
{
	struct pseudo_fs_context *ctx = init_pseudo(fc, 0x696f6d70);

	if (!ctx)
		return -ENOMEM;
	ctx->ops = &fs_sops;
	return 0;
}

static struct file_system_type fs_type = {
	.owner			= THIS_MODULE,
	.name			= "iomap_dio_script",
	.init_fs_context	= fs_init_fs_context,
	.kill_sb		= kill_anon_super,
};

int fs_make(void)
{
	int error = register_filesystem(&fs_type);
	struct vfsmount *mnt;
	struct file *file;

	if (error)
		return error;
	mnt = kern_mount(&fs_type);
	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	w.mnt = mnt;
	w.sb = mnt->mnt_sb;
	error = super_setup_bdi(w.sb) ?: crypt_make(w.sb, w.disk->part0);
	if (error)
		return error;
	w.inode = new_inode(w.sb);
	if (!w.inode)
		return -ENOMEM;
	w.inode->i_mode = S_IFREG | 0600;
	w.inode->i_mapping->a_ops = &fs_aops;
	w.inode->i_fop = &fs_fops;
	file = alloc_file_pseudo(w.inode, mnt, "script", O_RDWR | O_DIRECT, &fs_fops);
	if (IS_ERR(file)) {
		iput(w.inode);
		return PTR_ERR(file);
	}
	w.file = file;
	w.inline_data = (char *)get_zeroed_page(GFP_KERNEL);
	return w.inline_data ? 0 : -ENOMEM;
}

void fs_unmake(void)
{
	if (w.file)
		__fput_sync(w.file);
	free_page((unsigned long)w.inline_data);
	if (w.mnt) {
		kern_unmount(w.mnt);
		unregister_filesystem(&fs_type);
		crypt_unmake();
	}
}
