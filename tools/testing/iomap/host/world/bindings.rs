// SPDX-License-Identifier: GPL-2.0

//! C, as far as direct I/O calls it: its structures, with the fields that are used, and its functions.
//!
//! A function does what its callers can tell, checks what it requires of them, and draws what it is
//! free to do. Threads may be switched before and after it.
//!
//! What direct I/O calls for the first time has to be added here: until then, it does not compile.

use crate::{engine::*, pin_init::zeroed, scenario::*};
use std::{ffi::*, ptr::null_mut};

pub(crate) type loff_t = i64;
pub(crate) type rw_hint = u32;
pub(crate) type iomap_iter_begin_fn =
    Option<unsafe extern "C" fn(*mut inode, i64, i64, u32, *mut iomap, *mut iomap) -> c_int>;

macro_rules! structs {
    ($($name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {
        $(#[repr(C)] #[derive(Clone, Copy)] pub(crate) struct $name { $(pub(crate) $field: $ty,)* })*
    };
}

structs! {
    file { f_inode: *mut inode, f_mapping: *mut address_space }
    kiocb {
        ki_filp: *mut file, ki_pos: i64, ki_complete: Option<unsafe extern "C" fn(*mut kiocb, c_long)>,
        private: *mut c_void, ki_flags: c_int, ki_ioprio: u16,
    }
    // One page at most, at this position.
    address_space { page: Option<i64>, flags: c_ulong, nrpages: c_ulong }
    inode {
        i_sb: *mut super_block, i_size: i64, i_dio_count: c_int, i_flags: u32, i_write_hint: rw_hint, i_blkbits: u8,
    }
    super_block { s_dio_done_wq: *mut workqueue_struct, s_dio_done_list: llist_head }
    llist_head { first: *mut c_void }
    workqueue_struct { of_super_block: bool }
    work_struct { func: Option<unsafe extern "C" fn(*mut work_struct)> }
    task_struct { __state: c_uint }
    blk_integrity { metadata_size: u8 }
    queue_limits {
        logical_block_size: u32, physical_block_size: u32, dma_alignment: u32, features: u32, integrity: blk_integrity,
        chunk_sectors: u32, max_sectors: u32, max_segments: u16, max_fast_segment_size: u32, virt_boundary_mask: c_ulong,
    }
    request_queue { limits: queue_limits, mq_ops: *const c_void }
    block_device { bd_queue: *mut request_queue, bd_start_sect: u64 }
    bio_set { front_pad: u32 }
    bvec_iter { bi_sector: u64, bi_size: u32, bi_idx: u32, bi_offset: u32 }
    bio {
        bi_bdev: *mut block_device, bi_end_io: Option<unsafe extern "C" fn(*mut bio)>, bi_private: *mut c_void,
        bi_iter: bvec_iter, bi_io_vec: *mut bio_vec, bi_opf: u32, bi_write_hint: rw_hint, bi_ioprio: u16, bi_flags: u16, bi_vcnt: u16, bi_max_vecs: u16,
        bi_status: u8, refs: u8, pages: BioPages,
    }
    iomap_ioend { io_error: c_int, io_bio: bio }
    iomap {
        addr: u64, offset: i64, length: u64, type_: u16, flags: u32, bdev: *mut block_device, inline_data: *mut c_void,
    }
    iomap_iter {
        inode: *mut inode, pos: i64, len: u64, iter_start_pos: i64, status: c_int, flags: u32, iomap: iomap,
        srcmap: iomap, private: *mut c_void, fbatch: *mut c_void,
    }
    iomap_ops {
        iomap_begin: iomap_iter_begin_fn,
        iomap_end: Option<unsafe extern "C" fn(*mut inode, i64, i64, isize, u32, *mut iomap) -> c_int>,
        iomap_next: Option<unsafe extern "C" fn(*const iomap_iter, *mut iomap, *mut iomap) -> c_int>,
    }
    iomap_dio_ops {
        end_io: Option<unsafe extern "C" fn(*mut kiocb, isize, c_int, c_uint) -> c_int>,
        submit_io: Option<unsafe extern "C" fn(*const iomap_iter, *mut bio, i64)>, bio_set: *mut bio_set,
        flags: c_uint,
    }
    bio_vec { bv_page: usize, bv_len: u32, bv_offset: u32 }
    iov_memory { bvec: *const bio_vec }
    iov_count { __bindgen_anon_1: iov_memory, count: usize }
    iov_union { __bindgen_anon_1: iov_count }
    iov_segments { nr_segs: usize }
    iov_iter {
        iter_type: u8, nofault: bool, data_source: bool, iov_offset: usize, __bindgen_anon_1: iov_union,
        __bindgen_anon_2: iov_segments,
    }
    kmem_cache_args { align: u32 }
    kmem_cache { size: u32 }
    blk_plug { nothing: u8 }
    folio { nothing: u8 }
    // A slab object with the data of a bio.
    buffer { bio: *mut bio, copied: bool }
    iomap_dio { nothing: u8 }
}

/// The pages that a bio has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BioPages {
    None,
    Pinned,
    Bounced,
    /// Of zeroes: nobody gives them back.
    Zeroes,
}

/// As bindgen has the field of a union.
impl iov_count {
    pub(crate) unsafe fn as_ref(&self) -> &Self {
        self
    }
    pub(crate) unsafe fn as_mut(&mut self) -> &mut Self {
        self
    }
}

macro_rules! consts {
    ($($name:ident = $value:expr),* $(,)?) => { $(pub(crate) const $name: u32 = $value;)* };
}

consts! {
    IOMAP_DIO_FORCE_WAIT = 1 << 0, IOMAP_DIO_OVERWRITE_ONLY = 1 << 1, IOMAP_DIO_PARTIAL = 1 << 2,
    IOMAP_DIO_FSBLOCK_ALIGNED = 1 << 3, IOMAP_DIO_BOUNCE = 1 << 4, IOMAP_DIO_UNWRITTEN = 1 << 0,
    IOMAP_DIO_COW = 1 << 1, IOMAP_DIO_MERGE_END_IO = 1 << 0, IOMAP_DIO_INLINE_UNBOUNCE = 1 << 1, IOMAP_DIO_COMP_WORK = 1 << 27, IOMAP_WRITE = 1 << 0, IOMAP_DIRECT = 1 << 4,
    IOMAP_NOWAIT = 1 << 5, IOMAP_OVERWRITE_ONLY = 1 << 6, IOMAP_ATOMIC = 1 << 9, IOMAP_F_NEW = 1 << 0, IOMAP_F_DIRTY = 1 << 1,
    IOMAP_F_SHARED = 1 << 2, IOMAP_F_ANON_WRITE = 1 << 7, IOMAP_F_ATOMIC_BIO = 1 << 8, IOMAP_F_MIXED = 1 << 16, IOMAP_F_INTEGRITY = 0,
    IOMAP_HOLE = 0, IOMAP_DELALLOC = 1, IOMAP_MAPPED = 2, IOMAP_UNWRITTEN = 3, IOMAP_INLINE = 4,
    IOCB_HIPRI = 1 << 0, IOCB_DSYNC = 1 << 1, IOCB_SYNC = 1 << 2, IOCB_NOWAIT = 1 << 3, IOCB_ATOMIC = 1 << 6,
    TASK_RUNNING = 0, TASK_UNINTERRUPTIBLE = 2, GFP_KERNEL = 1, GFP_NOWAIT = 2, GFP_NOFS = 3, __GFP_COMP = 4,
    EIOCBQUEUED = 529, MAX_ERRNO = 4095, S_ENCRYPTED = 1 << 14, BLK_POLL_ONESHOT = 1,
    BLK_FEAT_WRITE_CACHE = 1 << 0, BLK_FEAT_FUA = 1 << 1, BLK_FEAT_NOWAIT = 1 << 2, BLK_FEAT_ZONED = 1 << 3, BIO_MAX_VECS = 256,
    BIO_PAGE_PINNED = 0, BIO_COMPLETE_IN_TASK = 1, BIOSET_NEED_BVECS = 1, BIOSET_PERCPU_CACHE = 4, _slab_flag_bits__SLAB_HWCACHE_ALIGN = 4,
    mapping_flags_AS_EIO = 0, mapping_flags_AS_ENOSPC = 1, iter_type_ITER_UBUF = 0, iter_type_ITER_IOVEC = 1,
    iter_type_ITER_BVEC = 2, iter_type_ITER_KVEC = 3, req_op_REQ_OP_READ = 0, req_op_REQ_OP_WRITE = 1,
    req_flag_bits___REQ_SYNC = 8, req_flag_bits___REQ_IDLE = 9, req_flag_bits___REQ_FUA = 10,
    req_flag_bits___REQ_ATOMIC = 11, req_flag_bits___REQ_NOWAIT = 12, req_flag_bits___REQ_POLLED = 13,
    fserror_type_FSERR_DIRECTIO_READ = 0, fserror_type_FSERR_DIRECTIO_WRITE = 1,
    IOMAP_DIO_STAT_SIMPLE_READ = 0, IOMAP_DIO_STAT_DIRECT = 1, IOMAP_DIO_STAT_DEFERRED = 2,
    IOMAP_DIO_STAT_BOUNCE = 3, IOMAP_DIO_STAT_BY_SUBMITTER = 4, IOMAP_DIO_STAT_BY_LAST_BIO = 5,
    IOMAP_DIO_STAT_BY_WORKER = 6, IOMAP_DIO_STAT_BY_IOEND = 7, IOMAP_DIO_STAT_WORKER_RUNS = 8,
    IOMAP_DIO_STAT_MERGED_RUNS = 9, IOMAP_DIO_STAT_MERGED_WRITES = 10,
    IOMAP_DIO_STAT_SHARED_FLUSHES = 11, IOMAP_DIO_STAT_SHARING_WRITES = 12,
    IOMAP_DIO_STAT_PUNT_UNWRITTEN = 13, IOMAP_DIO_STAT_PUNT_COW = 14, IOMAP_DIO_STAT_PUNT_NEW = 15,
    IOMAP_DIO_STAT_PUNT_EXTEND = 16, IOMAP_DIO_STAT_PUNT_SYNC = 17, IOMAP_DIO_STAT_PUNT_INVALIDATE = 18,
    IOMAP_DIO_STAT_PUNT_ERROR = 19, IOMAP_DIO_STAT_AGAIN_CACHE = 20, IOMAP_DIO_STAT_AGAIN_MAPPING = 21,
    IOMAP_DIO_STAT_AGAIN_SUBMITTED = 22, ITER_DEST = 0,
}
pub(crate) const IOMAP_DIO_BIO_MAX_BYTES: usize = 1 << 20;
pub(crate) const IOMAP_DIO_CACHE_LINE_BYTES: usize = 64;
pub(crate) static mut fs_bio_set: bio_set = bio_set { front_pad: 0 };

/// Functions of C: for `any` context, or those that may `sleep`.
macro_rules! functions {
    (@any $name:ident) => {};
    (@sleep $name:ident) => { might_sleep(stringify!($name)) };
    ($($(#[$attr:meta])* $context:ident fn $name:ident($($args:tt)*) $(-> $ret:ty)? $body:block)*) => { $(
        $(#[$attr])*
        pub(crate) unsafe extern "C" fn $name($($args)*) $(-> $ret)? {
            point();
            functions!(@$context $name);
            let ret = (|| $body)();
            point();
            ret
        }
    )* };
}

// Memory, tasks and work queues.
functions! {
    any fn __kmem_cache_create_args(_: *const c_char, size: u32, _: &mut kmem_cache_args, _: u32) -> *mut kmem_cache {
        Box::leak(Box::new(kmem_cache { size }))
    }
    any fn kmem_cache_alloc(cache: *mut kmem_cache, gfp: u32) -> *mut c_void {
        if gfp == GFP_NOWAIT {
            return kmalloc((*cache).size as usize, gfp);
        }
        might_sleep("kmem_cache_alloc");
        if case(|c| c.no_memory) {
            facts(|f| f.perhaps.push(-12));
            return null_mut();
        }
        alloc("request", (*cache).size as usize).cast()
    }
    any fn kmalloc(_: usize, _: u32) -> *mut c_void {
        if once_in(4) {
            // A request that may wait tries again.
            if case(|c| c.has(IOCB_NOWAIT)) {
                facts(|f| (f.no_bio = true, f.perhaps.push(-11)));
            }
            return null_mut();
        }
        alloc_zeroed::<buffer>("buffer").cast()
    }
    any fn __get_free_pages(gfp: u32, order: u32) -> usize {
        assert_eq!(gfp, GFP_NOWAIT | __GFP_COMP, "a device may take references to the parts");
        kmalloc(4096 << order, gfp).expose_provenance()
    }
    any fn free_pages(at: usize, _: u32) { kfree(std::ptr::with_exposed_provenance_mut(at)) }
    any fn kfree(at: *mut c_void) {
        if at.is_null() {
            return;
        }
        let what = world(|w| w.object(at).what);
        if what == "buffer" {
            let buffer { bio, copied } = *at.cast::<buffer>();
            if let Some(bio) = bio.as_mut() {
                let arrived = bio.bi_status == 0 && world(|w| w.object(bio).flight) == Flight::Ended;
                let read = bio.bi_opf & req_op_REQ_OP_WRITE == 0;
                assert_eq!(copied, read && arrived, "data is not copied, or that was not read");
                if bio.pages == BioPages::Bounced {
                    bio.pages = BioPages::None;
                }
            }
        }
        free(what, at);
    }

    any fn set_current_state(state: c_uint) { (*current()).__state = state }
    any fn __set_current_state(state: c_uint) { (*current()).__state = state }
    sleep fn blk_io_schedule() {
        // Something else may wake a task too early.
        if once_in(8) {
            (*current()).__state = TASK_RUNNING;
        }
        while (*current()).__state != TASK_RUNNING {
            step("sleep", current(), 0);
            shuttle::thread::park();
        }
    }
    sleep fn io_schedule_timeout(_: c_long) {
        spin();
        (*current()).__state = TASK_RUNNING;
    }
    any fn blk_wake_io_task(task: *mut task_struct) {
        step("wake", task, (*task).__state as usize);
        if (*task).__state == TASK_UNINTERRUPTIBLE {
            (*task).__state = TASK_RUNNING;
            unpark(task);
        }
    }

    any fn init_work_with_key(
        work: *mut work_struct, func: Option<unsafe extern "C" fn(*mut work_struct)>, _: bool, _: *const c_char, _: *mut ()
    ) { work.write(work_struct { func }) }
    any fn queue_work(queue: *mut workqueue_struct, work: *mut work_struct) -> bool {
        step("punt", work, 0);
        assert!((*queue).of_super_block, "not the queue of the super block");
        // Others may be added to its list until it runs.
        let late = case(|c| c.many / 2 * if c.many > 32 { 5 } else { 1 }) * draw(2) * draw(100);
        spawn("worker", move || {
            (0..late).for_each(|_| point());
            runs(work);
            (*work).func.unwrap()(work)
        });
        true
    }
    sleep fn sb_init_dio_done_wq(sb: *mut super_block) -> c_int {
        static mut QUEUE: workqueue_struct = workqueue_struct { of_super_block: true };
        (*sb).s_dio_done_wq = &raw mut QUEUE;
        0
    }
}

// Inodes, the page cache, and the walk over the mappings.
functions! {
    any fn i_size_read(inode: *const inode) -> i64 { (*inode).i_size }
    any fn i_size_write(_: *mut inode, _: i64) { unreachable!("there is no inline data") }
    any fn mark_inode_dirty(_: *mut inode) {}
    any fn inode_dio_begin(inode: *mut inode) {
        (*inode).i_dio_count += 1;
        facts(|f| (f.begun, f.counts) = (true, true));
    }
    any fn inode_dio_end(inode: *mut inode) {
        step("inode_dio_end", inode, 0);
        while !facts(|f| f.counts) && turn_to_next() {}
        (*inode).i_dio_count -= 1;
        let ended = ends();
        assert!(by() != "worker" || ended <= 32, "a worker has too many requests");
        facts(|f| f.counts = false);
        assert!(in_flight(inode) <= (*inode).i_dio_count, "a truncation goes on while a bio is in flight");
    }
    any fn inode_dio_done_list(inode: *mut inode) -> *mut llist_head {
        assert!(!facts(|f| f.simple), "a simple read waits for others with its bio");
        &raw mut (*(*inode).i_sb).s_dio_done_list
    }
    any fn iocb_is_dsync(iocb: *const kiocb) -> bool {
        step("is_dsync", iocb, 0);
        (*iocb).ki_flags as u32 & (IOCB_DSYNC | IOCB_SYNC) != 0 || case(|c| c.was_sync)
    }
    sleep fn kiocb_write_and_wait(_: *mut kiocb, _: usize) -> c_int { 0 }
    any fn filemap_range_has_page(mapping: *mut address_space, first: i64, last: i64) -> bool {
        (*mapping).page.is_some_and(|at| (first..=last).contains(&at))
    }
    sleep fn kiocb_invalidate_pages(_: *mut kiocb, _: usize) -> c_int { 0 }
    sleep fn kiocb_invalidate_post_direct_write(iocb: *mut kiocb, _: usize) {
        step("invalidate", iocb, 0);
        assert!(facts(|f| f.counts), "invalidation after inode_dio_end()");
        let told = facts(|f| f.told.is_some()) || !case(|c| c.has_end_io);
        assert!(told, "invalidation before ->end_io()");
        facts(|f| f.invalidated = true);
    }
    sleep fn generic_write_sync(iocb: *mut kiocb, count: isize) -> isize {
        step("flush", iocb, count as usize);
        assert!(by() != "worker" || flushed() == 1, "a write waits for the flush of another");
        let fails = once_in(8);
        flushes((*iocb).ki_pos as u64, count as u64, fails);
        while (*opened()).locked {
            spin();
        }
        if fails { -5 } else { count }
    }
    sleep fn fserror_report(_: *mut super_block, inode: *mut inode, _: u32, pos: i64, _: u64, error: c_int, _: u32) {
        turn_to(request_at(inode, pos as u64));
        step("report", inode, error as usize);
        facts(|f| f.reports += 1);
    }
    any fn iomap_dio_warn_collision(_: *mut kiocb) { unreachable!("there are no collisions") }

    any fn iomap_iter_advance(iter: *mut iomap_iter, bytes: u64) -> c_int {
        (*iter).pos += bytes as i64;
        (*iter).len -= bytes;
        0
    }
    sleep fn iomap_iter(iter: *mut iomap_iter, ops: *const iomap_ops) -> c_int {
        let (i, map, src) = (&mut *iter, &raw mut (*iter).iomap, &raw mut (*iter).srcmap);
        if (*map).length != 0 {
            let (advanced, status) = (i.pos - i.iter_start_pos, std::mem::take(&mut i.status));
            if let Some(end) = (*ops).iomap_end {
                end(i.inode, i.iter_start_pos, advanced, advanced as isize, i.flags, map);
            }
            if status < 0 || i.len == 0 || advanced == 0 {
                return status;
            }
            (*map, *src) = zeroed();
        }
        i.iter_start_pos = i.pos;
        let ret = (*ops).iomap_begin.unwrap()(i.inode, i.pos, i.len as i64, i.flags, map, src);
        if ret < 0 { ret } else { 1 }
    }
}

fn count(iter: &mut iov_iter) -> &mut usize {
    &mut iter.__bindgen_anon_1.__bindgen_anon_1.count
}

/// A vector of memory that is scattered.
pub(crate) const PAGE: bio_vec = bio_vec {
    bv_page: 0,
    bv_len: 4096,
    bv_offset: 0,
};

/// A bio takes a part of the memory.
unsafe fn take(bio: &mut bio, iter: *mut iov_iter, pages: BioPages) -> c_int {
    facts(|f| f.filled += 1);
    if facts(|f| f.filled) == case(|c| c.fault) {
        facts(|f| f.perhaps.push(-14));
        return -14;
    }
    let mut bytes = *count(&mut *iter);
    if u32::from((*iter).iter_type) != iter_type_ITER_BVEC || pages == BioPages::Bounced {
        bytes = bytes.min(case(|c| c.bio_bytes));
    }
    *count(&mut *iter) -= bytes;
    static VECTORS: [bio_vec; 16] = [PAGE; 16];
    bio.bi_io_vec = VECTORS.as_ptr().cast_mut();
    (bio.bi_iter.bi_size, bio.bi_vcnt, bio.pages) =
        (bytes as u32, bytes.div_ceil(4096) as u16, pages);
    0
}

// The caller's memory, and bios.
functions! {
    any fn iov_iter_npages(iter: *mut iov_iter, max: c_int) -> c_int {
        max.min(count(&mut *iter).div_ceil(4096) as c_int)
    }
    any fn iov_iter_advance(iter: *mut iov_iter, bytes: usize) { *count(&mut *iter) -= bytes }
    any fn iov_iter_revert(iter: *mut iov_iter, bytes: usize) { *count(&mut *iter) += bytes }
    sleep fn iov_iter_zero(bytes: usize, iter: *mut iov_iter) -> usize {
        let bytes = bytes.min(*count(&mut *iter));
        *count(&mut *iter) -= bytes;
        facts(|f| f.bytes += bytes);
        bytes
    }
    sleep fn _copy_from_iter(_: *mut c_void, bytes: usize, iter: *mut iov_iter) -> usize {
        facts(|f| f.filled += 1);
        let faults = facts(|f| f.filled) == case(|c| c.fault);
        if faults {
            facts(|f| f.perhaps.push(-14));
        }
        let copied = if faults { bytes / 2 } else { bytes };
        *count(&mut *iter) -= copied;
        copied
    }
    any fn iov_iter_bvec(iter: *mut iov_iter, _: u32, vecs: *const bio_vec, vecs_len: usize, bytes: usize) {
        let listed = std::slice::from_raw_parts(vecs, vecs_len);
        assert!(listed.iter().map(|v| v.bv_len as usize).sum::<usize>() >= bytes, "memory is left out");
        (&raw mut (*iter).iter_type).write(iter_type_ITER_BVEC as u8);
    }
    any fn memcpy_to_bvec(bvec: *mut bio_vec, from: *const c_char) {
        _copy_to_iter(from.cast(), (*bvec).bv_len as usize, null_mut());
    }
    any fn _copy_to_iter(from: *const c_void, bytes: usize, _: *mut iov_iter) -> usize {
        let buffer = &mut *from.cast_mut().cast::<buffer>();
        assert!((*buffer.bio).bi_status == 0, "data that was not read is copied");
        assert!(world(|w| w.object(buffer.bio).flight) == Flight::Ended, "data is copied before it is there");
        if bytes > 4096 {
            might_sleep("the copy to the caller's memory");
        }
        buffer.copied = true;
        has_copied(true);
        bytes
    }
    any fn copy_from_iter(_: *mut c_void, _: usize, _: *mut iov_iter) -> usize { unreachable!("no inline data") }
    any fn copy_to_iter(_: *const c_void, _: usize, _: *mut iov_iter) -> usize { unreachable!("no inline data") }
    any fn task_io_account_write(_: usize) {}
    any fn task_io_account_cancelled_write(_: usize) {}

    any fn bioset_init(set: *mut bio_set, _: u32, front_pad: u32, _: c_int) -> c_int {
        set.write(bio_set { front_pad });
        0
    }
    any fn bio_alloc_bioset(bi_bdev: *mut block_device, bi_max_vecs: u16, bi_opf: u32, gfp: u32, set: *mut bio_set)
    -> *mut bio {
        if gfp == GFP_KERNEL {
            might_sleep("bio_alloc_bioset");
        } else if once_in(4) {
            // A request that may wait tries again.
            if case(|c| c.has(IOCB_NOWAIT)) {
                facts(|f| (f.no_bio = true, f.perhaps.push(-11)));
            }
            return null_mut();
        }
        let pad = (*set).front_pad as usize;
        // Those of its own, as far as something is written there.
        let vecs = usize::from(bi_max_vecs.min(32)) * size_of::<bio_vec>();
        let raw: *mut bio = alloc("bio", pad + size_of::<bio>() + vecs).wrapping_add(pad).cast();
        let bi_io_vec = raw.add(1).cast();
        raw.write(bio { bi_bdev, bi_opf, bi_io_vec, bi_max_vecs, refs: 1, pages: BioPages::None, ..zeroed() });
        raw
    }
    any fn bio_get(bio: *mut bio) { (*bio).refs += 1 }
    any fn bio_put(bio: *mut bio) {
        (*bio).refs -= 1;
        if (*bio).refs == 0 {
            assert!(matches!((*bio).pages, BioPages::None | BioPages::Zeroes), "its pages are not given back");
            let flight = world(|w| w.object(bio).flight);
            assert!(matches!(flight, Flight::Grounded | Flight::Ended), "a bio is put in flight");
            assert!(by() == "submitter" || !may_be_polled(bio), "a poller finds a bio that is freed");
            free("bio", bio);
        }
    }
    any fn bio_iov_iter_set(bio: *mut bio, iter: *const iov_iter) -> bool {
        let bytes = (*iter).__bindgen_anon_1.__bindgen_anon_1.count;
        ((*bio).bi_iter.bi_size, (*bio).pages) = (bytes as u32, BioPages::Pinned);
        (*bio).bi_io_vec = (*iter).__bindgen_anon_1.__bindgen_anon_1.__bindgen_anon_1.bvec.cast_mut();
        true
    }
    sleep fn bio_iov_iter_get_pages(bio: *mut bio, iter: *mut iov_iter, _: u32, _: u32) -> c_int {
        take(&mut *bio, iter, BioPages::Pinned)
    }
    sleep fn bio_iov_iter_bounce(bio: *mut bio, iter: *mut iov_iter, _: usize, _: usize) -> c_int {
        take(&mut *bio, iter, BioPages::Bounced)
    }
    sleep fn iov_iter_extract_bvecs(
        iter: *mut iov_iter, vecs: *mut bio_vec, most: usize, count_of: *mut u16, most_vecs: u16, _: u32, _: u32,
    ) -> isize {
        facts(|f| f.filled += 1);
        if facts(|f| f.filled) == case(|c| c.fault) {
            facts(|f| f.perhaps.push(-14));
            return -14;
        }
        // In this world they are of a bio, right behind that.
        let bio = &mut *vecs.cast::<bio>().sub(1);
        assert!(*count_of < most_vecs && most <= *count(&mut *iter));
        assert_eq!(bio.bi_flags & 1 << BIO_PAGE_PINNED != 0, case(|c| c.user_memory), "pins are forgotten");
        vecs.add((*count_of).into()).write(bio_vec { bv_len: most.min(PAGE.bv_len as usize) as u32, ..PAGE });
        let bytes = (*vecs.add((*count_of).into())).bv_len as usize;
        (*count(&mut *iter), *count_of) = (*count(&mut *iter) - bytes, *count_of + 1);
        bio.pages = BioPages::Pinned;
        bytes as isize
    }
    any fn bvec_set_virt(vec: *mut bio_vec, _: *mut c_void, bv_len: u32) { vec.write(bio_vec { bv_len, ..PAGE }) }
    any fn in_hardirq() -> bool { is_atomic() }
    any fn preempt_disable() {}
    any fn preempt_enable() {}
    any fn bio_in_atomic() -> bool { is_atomic() }
    any fn bio_iov_iter_unbounce(bio: *mut bio, failed: bool, dirties: bool) {
        if (*bio).bi_opf & req_op_REQ_OP_WRITE == 0 {
            assert!(failed || (*bio).bi_status == 0, "data that was not read is copied");
            let flight = world(|w| w.object(bio).flight);
            assert!(failed || flight == Flight::Ended, "data is copied before it is there");
            if dirties || case(Case::is_dirtied) {
                might_sleep("the copy to the caller's memory");
            }
        }
        // Pages of zeroes are passed over.
        assert!(matches!((*bio).pages, BioPages::Bounced | BioPages::Zeroes), "not bounced");
        (*bio).pages = BioPages::None;
    }
    any fn bio_release_pages(bio: *mut bio, _: bool) {
        assert_ne!((*bio).pages, BioPages::Bounced);
        if (*bio).pages == BioPages::Pinned {
            (*bio).pages = BioPages::None;
        }
    }
    sleep fn bio_set_pages_dirty(_: *mut bio) {}
    any fn bio_release_dirty_pages(bio: *mut bio) -> bool {
        assert!(!has_copied(false), "a page is looked at before others see what was copied to it");
        let are_dirty = !once_in(2);
        if are_dirty {
            bio_release_pages(bio, false);
        }
        are_dirty
    }
    any fn bio_check_pages_dirty(bio: *mut bio) {
        if bio_release_dirty_pages(bio) {
            return bio_put(bio);
        }
        // Some pages were cleaned.
        step("dirty later", bio, 0);
        (*bio).bi_private = null_mut();
        spawn("dirtier", move || {
            bio_release_pages(bio, false);
            bio_put(bio);
        });
    }
    any fn largest_zero_folio() -> *mut folio { null_mut() }
    any fn folio_size(_: *const folio) -> usize { 4096 }
    any fn bio_add_folio_nofail(bio: *mut bio, _: *mut folio, bytes: usize, _: usize) {
        (*bio).bi_vcnt += 1;
        (*bio).bi_iter.bi_size += bytes as u32;
        (*bio).pages = BioPages::Zeroes;
    }
}

/// Memory of several vectors, of a page each, has gaps and may be too many. So may the segments of one page.
unsafe fn is_scattered(bio: *const bio, limits: &queue_limits) -> bool {
    let (bytes, segment) = ((*bio).bi_iter.bi_size, limits.max_fast_segment_size);
    let several = bytes > (*(*bio).bi_io_vec).bv_len;
    let too_many = bytes.div_ceil(segment) > limits.max_segments.into();
    (several && limits.virt_boundary_mask != 0) || ((several || segment < 4096) && too_many)
}

/// Whether the device may say that it would wait, and nothing is done then.
unsafe fn may_refuse(bio: *const bio) -> bool {
    let bvec_iter {
        bi_sector, bi_size, ..
    } = (*bio).bi_iter;
    let queue = &*(*(*bio).bi_bdev).bd_queue;
    let (limits, sectors, start) = (
        &queue.limits,
        bi_size >> 9,
        bi_sector + (*(*bio).bi_bdev).bd_start_sect,
    );
    assert!(limits.features & BLK_FEAT_NOWAIT != 0, "not supported");
    if !facts(|f| f.simple) {
        assert_eq!(limits.features & BLK_FEAT_ZONED, 0, "writes are held back");
        assert!(
            (*bio).bi_opf & req_op_REQ_OP_WRITE == 0 || !queue.mq_ops.is_null(),
            "a part may be written"
        );
        assert!(
            (*bio).bi_opf & req_op_REQ_OP_WRITE == 0 || !case(|c| c.has_iomap_end),
            "the file system may have done what stays"
        );
        let mut most = limits.max_sectors;
        if let chunk @ 1.. = limits.chunk_sectors {
            most = most.min(blk_boundary_sectors_left(start, chunk));
        }
        // The first part ends with a physical block.
        let block = limits.physical_block_size >> 9;
        let before = start as u32 % block;
        let whole = (before + most) / block * block;
        let split = sectors > whole.checked_sub(before).filter(|&n| n > 0).unwrap_or(most);
        let split = split || is_scattered(bio, limits);
        assert!(!split, "a bio that has to be split must not wait");
    }
    once_in(3)
}

/// The device has done with a bio, unless that ended before.
unsafe fn bio_endio(bio: *mut bio, from: Flight) {
    if !world(|w| w.object(bio).goes(from, Flight::Ended)) {
        return;
    }
    if (*bio).bi_status == 0 && draw(4) < case(|c| c.fails_of_4) {
        (*bio).bi_status = 100 + facts(|f| f.bios) as u8;
    }
    if (*bio).bi_status != 0 {
        // Once an error is recorded, no other one can be the result.
        facts(|f| {
            f.errors
                .extend((!f.settled).then_some(-c_int::from((*bio).bi_status)))
        });
    }
    let mapping = &(*opened()).mapping;
    facts(|f| f.cached_at_end = mapping.page.map(|at| at as u64));
    let failed = (*bio).bi_status != 0;
    step("end", bio, (*bio).bi_status as usize);
    (*bio).bi_end_io.unwrap()(bio);
    let recorded = failed && !case(Case::ends_later);
    facts(|f| f.settled |= recorded);
}

// The device.
functions! {
    any fn blk_status_to_errno(status: u8) -> c_int { -c_int::from(status) }
    any fn bdev_write_cache(bdev: *mut block_device) -> bool {
        (*(*bdev).bd_queue).limits.features & BLK_FEAT_WRITE_CACHE != 0
    }
    any fn bio_split_io_at(bio: *mut bio, limits: *const queue_limits, _: &mut c_uint, max_bytes: c_uint, _: c_uint)
    -> c_int {
        c_int::from((*bio).bi_iter.bi_size > max_bytes || is_scattered(bio, &*limits))
    }
    any fn blk_boundary_sectors_left(offset: u64, boundary: c_uint) -> c_uint {
        boundary - (offset % u64::from(boundary)) as c_uint
    }
    any fn max_integrity_io_size(_: *mut queue_limits) -> u32 { 0 }
    any fn blk_start_plug(_: *mut blk_plug) {}
    any fn blk_finish_plug(_: *mut blk_plug) {}
    sleep fn submit_bio(bio: *mut bio) {
        if case(Case::is_bounced) && matches!((*bio).pages, BioPages::None | BioPages::Pinned) {
            (*(*bio).bi_private.cast::<buffer>()).bio = bio;
            let vec = *(*bio).bi_io_vec.add((*bio).bi_iter.bi_idx as usize);
            assert_eq!(vec.bv_len, (*bio).bi_iter.bi_size, "something else is transferred");
            if (*bio).pages == BioPages::None {
                (*bio).pages = BioPages::Bounced;
            }
        }
        let (opf, pages, bytes) = ((*bio).bi_opf, (*bio).pages, (*bio).bi_iter.bi_size);
        step("submit", bio, bytes as usize);
        assert!(bytes > 0 && pages != BioPages::None, "an empty bio");
        facts(|f| {
            f.bios += 1;
            if pages != BioPages::Zeroes {
                f.bytes += bytes as usize;
                f.all_fua &= opf & 1 << req_flag_bits___REQ_FUA != 0;
            }
        });
        // Not each device supports polling.
        let polled = opf & 1 << req_flag_bits___REQ_POLLED != 0 && !once_in(4);
        let to = if polled { Flight::Polled } else { Flight::Flying };
        assert!(world(|w| w.object(bio).goes(Flight::Grounded, to)), "submitted twice");
        if opf & 1 << req_flag_bits___REQ_NOWAIT != 0 && may_refuse(bio) {
            facts(|f| f.perhaps.push(-11));
            step("refuse to wait", bio, 0);
            (*bio).bi_status = 11;
            return bio_endio(bio, to);
        }
        let interrupt = move || atomic(|| bio_endio(bio, Flight::Flying));
        match (polled, once_in(4)) {
            (true, _) => {}
            (false, true) => interrupt(),
            (false, false) => spawn("interrupt", interrupt),
        }
    }
    any fn iocb_bio_iopoll(iocb: *mut kiocb, _: *mut c_void, _: c_uint) -> c_int {
        let _guard = read_lock();
        let bio: *mut bio = (*iocb).private.cast();
        if !bio.is_null() {
            step("poll", bio, 0);
            // The memory stays a bio.
            bio_endio(bio, Flight::Polled);
        }
        0
    }
}
