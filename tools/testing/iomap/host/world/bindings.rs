// SPDX-License-Identifier: GPL-2.0

//! C, as far as direct I/O calls it: its structures, with the fields that are used, and its functions.
//!
//! A function does what its callers can tell, checks what it requires of them, and draws what it is
//! free to do. Threads are switched when it is called.

use crate::{
    engine::{
        self,
        atomic,
        free,
        might_sleep,
        object,
        once_in,
        point,
        spawn,
        spin,
        step,
        world,
        Flight, //
    },
    scenario::{
        facts,
        opened, //
    },
};
use std::{
    ffi::{
        c_char,
        c_int,
        c_long,
        c_uint,
        c_ulong,
        c_void, //
    },
    ptr, //
};

pub(crate) type loff_t = i64;
pub(crate) type rw_hint = u32;
pub(crate) type bio_end_io_t = Option<unsafe extern "C" fn(*mut bio)>;
pub(crate) type iomap_iter_begin_fn =
    Option<unsafe extern "C" fn(*mut inode, loff_t, loff_t, u32, *mut iomap, *mut iomap) -> c_int>;

macro_rules! structs {
    ($($name:ident { $($field:ident: $ty:ty,)* })*) => { $(
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $ty,)*
        }
    )* };
}

structs! {
    kiocb {
        ki_filp: *mut file,
        ki_pos: loff_t,
        ki_complete: Option<unsafe extern "C" fn(*mut kiocb, c_long)>,
        private: *mut c_void,
        ki_flags: c_int,
        ki_ioprio: u16,
    }
    file {
        f_inode: *mut inode,
        f_mapping: *mut address_space,
    }
    xarray {
        xa_head: *mut c_void,
    }
    address_space {
        i_pages: xarray,
        flags: c_ulong,
        nrpages: c_ulong,
    }
    inode {
        i_sb: *mut super_block,
        i_size: loff_t,
        i_dio_count: c_int,
        i_flags: u32,
        i_write_hint: rw_hint,
        i_blkbits: u8,
    }
    super_block {
        s_dio_done_wq: *mut workqueue_struct,
    }
    workqueue_struct {
        id: u32,
    }
    work_struct {
        func: Option<unsafe extern "C" fn(*mut work_struct)>,
    }
    task_struct {
        __state: c_uint,
    }
    integrity_limits {
        metadata_size: u8,
    }
    queue_limits {
        logical_block_size: u32,
        dma_alignment: u32,
        features: u32,
        integrity: integrity_limits,
    }
    request_queue {
        limits: queue_limits,
    }
    block_device {
        bd_queue: *mut request_queue,
    }
    bio_set {
        front_pad: u32,
    }
    bvec_iter {
        bi_sector: u64,
        bi_size: u32,
    }
    bio {
        bi_bdev: *mut block_device,
        bi_end_io: bio_end_io_t,
        bi_private: *mut c_void,
        bi_iter: bvec_iter,
        bi_opf: u32,
        bi_write_hint: rw_hint,
        bi_ioprio: u16,
        bi_vcnt: u16,
        bi_max_vecs: u16,
        bi_status: u8,
        refs: u8,
        pages: BioPages,
    }
    iomap_ioend {
        io_error: c_int,
        io_bio: bio,
    }
    iomap {
        addr: u64,
        offset: loff_t,
        length: u64,
        type_: u16,
        flags: u16,
        bdev: *mut block_device,
        inline_data: *mut c_void,
    }
    iomap_iter {
        inode: *mut inode,
        pos: loff_t,
        len: u64,
        iter_start_pos: loff_t,
        status: c_int,
        flags: u32,
        iomap: iomap,
        srcmap: iomap,
        private: *mut c_void,
        fbatch: *mut c_void,
    }
    iomap_ops {
        iomap_begin: iomap_iter_begin_fn,
        iomap_end: Option<unsafe extern "C" fn(*mut inode, loff_t, loff_t, isize, u32, *mut iomap) -> c_int>,
    }
    iomap_dio_ops {
        end_io: Option<unsafe extern "C" fn(*mut kiocb, isize, c_int, c_uint) -> c_int>,
        submit_io: Option<unsafe extern "C" fn(*const iomap_iter, *mut bio, loff_t)>,
        bio_set: *mut bio_set,
    }
    iov_count {
        count: usize,
    }
    iov_anon {
        __bindgen_anon_1: iov_count,
    }
    iov_iter {
        iter_type: u8,
        data_source: bool,
        __bindgen_anon_1: iov_anon,
    }
    kmem_cache_args {
        align: u32,
    }
    kmem_cache {
        size: u32,
    }
    blk_plug {
        nothing: u8,
    }
    folio {
        nothing: u8,
    }
    iomap_dio {
        nothing: u8,
    }
}

/// What a bio has of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BioPages {
    None,
    Pinned,
    Bounced,
    /// Of zeroes, which nobody has to give back.
    Zeroes,
}

// A field of a union, as bindgen has them.
impl iov_count {
    pub(crate) unsafe fn as_ref(&self) -> &Self {
        self
    }

    pub(crate) unsafe fn as_mut(&mut self) -> &mut Self {
        self
    }
}

macro_rules! consts {
    ($ty:ty: $($name:ident = $value:expr,)*) => {
        $(#[allow(non_upper_case_globals)] pub(crate) const $name: $ty = $value;)*
    };
}

consts! { u32:
    IOMAP_DIO_FORCE_WAIT = 1 << 0,
    IOMAP_DIO_OVERWRITE_ONLY = 1 << 1,
    IOMAP_DIO_PARTIAL = 1 << 2,
    IOMAP_DIO_FSBLOCK_ALIGNED = 1 << 3,
    IOMAP_DIO_BOUNCE = 1 << 4,
    IOMAP_DIO_UNWRITTEN = 1 << 0,
    IOMAP_DIO_COW = 1 << 1,
    IOMAP_WRITE = 1 << 0,
    IOMAP_DIRECT = 1 << 4,
    IOMAP_NOWAIT = 1 << 5,
    IOMAP_OVERWRITE_ONLY = 1 << 6,
    IOMAP_ATOMIC = 1 << 9,
    IOMAP_F_NEW = 1 << 0,
    IOMAP_F_DIRTY = 1 << 1,
    IOMAP_F_SHARED = 1 << 2,
    IOMAP_F_ANON_WRITE = 1 << 7,
    IOMAP_F_ATOMIC_BIO = 1 << 8,
    IOMAP_F_INTEGRITY = 0,
    IOMAP_HOLE = 0,
    IOMAP_DELALLOC = 1,
    IOMAP_MAPPED = 2,
    IOMAP_UNWRITTEN = 3,
    IOMAP_INLINE = 4,
    IOCB_HIPRI = 1 << 0,
    IOCB_DSYNC = 1 << 1,
    IOCB_SYNC = 1 << 2,
    IOCB_NOWAIT = 1 << 3,
    IOCB_ATOMIC = 1 << 6,
    TASK_RUNNING = 0,
    TASK_UNINTERRUPTIBLE = 2,
    GFP_KERNEL = 1,
    GFP_NOWAIT = 2,
    GFP_NOFS = 3,
    EIOCBQUEUED = 529,
    MAX_ERRNO = 4095,
    S_ENCRYPTED = 1 << 14,
    BLK_POLL_ONESHOT = 1,
    BLK_FEAT_WRITE_CACHE = 1 << 0,
    BLK_FEAT_FUA = 1 << 1,
    BLK_FEAT_NOWAIT = 1 << 2,
    BIO_MAX_VECS = 256,
    BIOSET_NEED_BVECS = 1,
    BIOSET_PERCPU_CACHE = 4,
    _slab_flag_bits__SLAB_HWCACHE_ALIGN = 4,
    mapping_flags_AS_EIO = 0,
    mapping_flags_AS_ENOSPC = 1,
    iter_type_ITER_UBUF = 0,
    iter_type_ITER_IOVEC = 1,
    iter_type_ITER_BVEC = 2,
    iter_type_ITER_KVEC = 3,
    req_op_REQ_OP_READ = 0,
    req_op_REQ_OP_WRITE = 1,
    req_flag_bits___REQ_SYNC = 8,
    req_flag_bits___REQ_IDLE = 9,
    req_flag_bits___REQ_FUA = 10,
    req_flag_bits___REQ_ATOMIC = 11,
    req_flag_bits___REQ_NOWAIT = 12,
    req_flag_bits___REQ_POLLED = 13,
    fserror_type_FSERR_DIRECTIO_READ = 0,
    fserror_type_FSERR_DIRECTIO_WRITE = 1,
}
pub(crate) const IOMAP_DIO_BIO_MAX_BYTES: usize = 1 << 20;
pub(crate) const IOMAP_DIO_CACHE_LINE_BYTES: usize = 64;

#[allow(non_upper_case_globals)]
pub(crate) static mut fs_bio_set: bio_set = bio_set { front_pad: 0 };

// Each function is called with what the C function requires.
#[allow(clippy::missing_safety_doc)]
mod functions {
    use super::*;

    // --- Memory ---

    pub(crate) unsafe fn __kmem_cache_create_args(
        _: *const c_char,
        size: u32,
        _: &mut kmem_cache_args,
        _: u32,
    ) -> *mut kmem_cache {
        Box::into_raw(Box::new(kmem_cache { size }))
    }

    pub(crate) unsafe fn kmem_cache_alloc(cache: *mut kmem_cache, _: u32) -> *mut c_void {
        might_sleep("allocation");
        if world(|w| w.case.no_memory) {
            facts(|f| f.perhaps.push(-12));
            return ptr::null_mut();
        }
        engine::alloc("request", unsafe { (*cache).size } as usize).cast()
    }

    pub(crate) unsafe fn kfree(at: *mut c_void) {
        point();
        free("request", at);
    }

    // --- Tasks ---

    pub(crate) unsafe fn set_current_state(state: c_uint) {
        point();
        unsafe { (*engine::current()).__state = state };
        point();
    }

    pub(crate) unsafe fn __set_current_state(state: c_uint) {
        unsafe { set_current_state(state) };
    }

    pub(crate) unsafe fn blk_io_schedule() {
        might_sleep("sleep");
        let task = engine::current();
        // Something else may wake a task too early.
        if once_in(8) {
            unsafe { (*task).__state = TASK_RUNNING };
        }
        while unsafe { (*task).__state } != TASK_RUNNING {
            step("sleep", task, 0);
            shuttle::thread::park();
        }
    }

    pub(crate) unsafe fn io_schedule_timeout(_: c_long) {
        might_sleep("sleep");
        spin();
        unsafe { (*engine::current()).__state = TASK_RUNNING };
    }

    pub(crate) unsafe fn blk_wake_io_task(task: *mut task_struct) {
        point();
        step("wake", task, unsafe { (*task).__state } as usize);
        if unsafe { (*task).__state } == TASK_UNINTERRUPTIBLE {
            unsafe { (*task).__state = TASK_RUNNING };
            engine::unpark(task);
        }
        point();
    }

    // --- Work queues ---

    pub(crate) unsafe fn init_work_with_key(
        work: *mut work_struct,
        func: Option<unsafe extern "C" fn(*mut work_struct)>,
        _: bool,
        _: *const c_char,
        _: *mut (),
    ) {
        unsafe { work.write(work_struct { func }) };
    }

    pub(crate) unsafe fn queue_work(queue: *mut workqueue_struct, work: *mut work_struct) -> bool {
        step("punt", work, 0);
        assert_eq!(unsafe { (*queue).id }, 1, "not the queue of the super block");
        spawn("worker", move || unsafe { (*work).func.unwrap()(work) });
        point();
        true
    }

    pub(crate) unsafe fn sb_init_dio_done_wq(sb: *mut super_block) -> c_int {
        might_sleep("allocation");
        let queue = Box::leak(Box::new(workqueue_struct { id: 1 }));
        unsafe { (*sb).s_dio_done_wq = queue };
        0
    }

    // --- Inodes and the page cache ---

    pub(crate) unsafe fn i_size_read(inode: *const inode) -> loff_t {
        unsafe { (*inode).i_size }
    }

    pub(crate) unsafe fn i_size_write(inode: *mut inode, size: loff_t) {
        unsafe { (*inode).i_size = size };
    }

    pub(crate) unsafe fn mark_inode_dirty(_: *mut inode) {}

    pub(crate) unsafe fn inode_dio_begin(inode: *mut inode) {
        point();
        unsafe { (*inode).i_dio_count += 1 };
        facts(|f| f.begun = true);
    }

    pub(crate) unsafe fn inode_dio_end(inode: *mut inode) {
        point();
        step("inode_dio_end", inode, 0);
        let left = unsafe {
            (*inode).i_dio_count -= 1;
            (*inode).i_dio_count
        };
        assert_eq!(left, 0, "i_dio_count");
        // A truncation goes on now.
        no_bio_flies("counted no more");
        point();
    }

    /// No bio is on its way.
    pub(crate) fn no_bio_flies(when: &str) {
        let flies = |f| matches!(f, Flight::Flying | Flight::Polled);
        let any = world(|w| w.objects.iter().any(|o| flies(o.flight)));
        assert!(!any, "{when} while a bio is in flight");
    }

    pub(crate) unsafe fn iocb_is_dsync(iocb: *const kiocb) -> bool {
        unsafe { (*iocb).ki_flags as u32 & (IOCB_DSYNC | IOCB_SYNC) != 0 }
    }

    pub(crate) unsafe fn kiocb_write_and_wait(_: *mut kiocb, _: usize) -> c_int {
        might_sleep("writeback");
        point();
        0
    }

    pub(crate) unsafe fn kiocb_invalidate_pages(_: *mut kiocb, _: usize) -> c_int {
        might_sleep("invalidation");
        point();
        0
    }

    pub(crate) unsafe fn kiocb_invalidate_post_direct_write(iocb: *mut kiocb, _: usize) {
        might_sleep("invalidation");
        point();
        let inode = unsafe { (*(*iocb).ki_filp).f_inode };
        assert_eq!(unsafe { (*inode).i_dio_count }, 1, "invalidation after inode_dio_end()");
        step("invalidate", iocb, 0);
        facts(|f| f.invalidated = true);
    }

    pub(crate) unsafe fn generic_write_sync(iocb: *mut kiocb, count: isize) -> isize {
        might_sleep("flush");
        point();
        let inode = unsafe { (*(*iocb).ki_filp).f_inode };
        assert_eq!(unsafe { (*inode).i_dio_count }, 0, "flush before inode_dio_end()");
        step("flush", iocb, count as usize);
        facts(|f| f.flushed = true);
        count
    }

    pub(crate) unsafe fn fserror_report(
        _: *mut super_block,
        inode: *mut inode,
        _: u32,
        _: loff_t,
        _: u64,
        error: c_int,
        _: u32,
    ) {
        might_sleep("report");
        point();
        step("report", inode, error as usize);
        facts(|f| f.reports += 1);
    }

    pub(crate) unsafe fn iomap_dio_warn_collision(_: *mut kiocb) {}

    // --- The caller's memory ---

    fn count(iter: &mut iov_iter) -> &mut usize {
        &mut iter.__bindgen_anon_1.__bindgen_anon_1.count
    }

    pub(crate) unsafe fn iov_iter_npages(iter: *mut iov_iter, max: c_int) -> c_int {
        unsafe { max.min(count(&mut *iter).div_ceil(4096) as c_int) }
    }

    pub(crate) unsafe fn iov_iter_revert(iter: *mut iov_iter, bytes: usize) {
        unsafe { *count(&mut *iter) += bytes };
    }

    pub(crate) unsafe fn iov_iter_zero(bytes: usize, iter: *mut iov_iter) -> usize {
        might_sleep("fault");
        let bytes = bytes.min(unsafe { *count(&mut *iter) });
        unsafe { *count(&mut *iter) -= bytes };
        facts(|f| f.bytes += bytes);
        bytes
    }

    pub(crate) unsafe fn copy_from_iter(_: *mut c_void, _: usize, _: *mut iov_iter) -> usize {
        unreachable!("there is no inline data")
    }

    pub(crate) unsafe fn copy_to_iter(_: *const c_void, _: usize, _: *mut iov_iter) -> usize {
        unreachable!("there is no inline data")
    }

    pub(crate) unsafe fn task_io_account_write(_: usize) {}

    // --- The walk ---

    pub(crate) unsafe fn iomap_iter_advance(iter: *mut iomap_iter, bytes: u64) -> c_int {
        let iter = unsafe { &mut *iter };
        iter.pos += bytes as i64;
        iter.len -= bytes;
        0
    }

    pub(crate) unsafe fn iomap_iter(iter: *mut iomap_iter, ops: *const iomap_ops) -> c_int {
        let (iter, ops) = unsafe { (&mut *iter, &*ops) };
        if iter.iomap.length != 0 {
            let advanced = iter.pos - iter.iter_start_pos;
            let status = iter.status;
            iter.status = 0;
            if let Some(end) = ops.iomap_end {
                let (start, map) = (iter.iter_start_pos, &raw mut iter.iomap);
                unsafe { end(iter.inode, start, advanced, advanced as isize, iter.flags, map) };
            }
            if status < 0 {
                return status;
            }
            if iter.len == 0 || advanced == 0 {
                return 0;
            }
            (iter.iomap, iter.srcmap) = crate::pin_init::zeroed();
        }
        let (map, src) = (&raw mut iter.iomap, &raw mut iter.srcmap);
        let begin = ops.iomap_begin.unwrap();
        let ret = unsafe { begin(iter.inode, iter.pos, iter.len as i64, iter.flags, map, src) };
        if ret < 0 {
            return ret;
        }
        iter.iter_start_pos = iter.pos;
        1
    }

    // --- Bios ---

    pub(crate) unsafe fn bioset_init(set: *mut bio_set, _: u32, front_pad: u32, _: c_int) -> c_int {
        unsafe { set.write(bio_set { front_pad }) };
        0
    }

    pub(crate) unsafe fn bio_alloc_bioset(
        bdev: *mut block_device,
        vecs: u16,
        opf: u32,
        gfp: u32,
        set: *mut bio_set,
    ) -> *mut bio {
        point();
        if gfp == GFP_NOWAIT {
            if once_in(4) {
                facts(|f| f.perhaps.push(-11));
                return ptr::null_mut();
            }
        } else {
            might_sleep("allocation");
        }
        let pad = unsafe { (*set).front_pad } as usize;
        let raw = engine::alloc("bio", pad + size_of::<bio>());
        let raw: *mut bio = raw.wrapping_byte_add(pad).cast();
        unsafe {
            raw.write(bio {
                bi_bdev: bdev,
                bi_opf: opf,
                bi_max_vecs: vecs,
                refs: 1,
                pages: BioPages::None,
                ..crate::pin_init::zeroed()
            });
        }
        raw
    }

    pub(crate) unsafe fn bio_get(bio: *mut bio) {
        point();
        unsafe { (*bio).refs += 1 };
    }

    pub(crate) unsafe fn bio_put(bio: *mut bio) {
        point();
        unsafe {
            (*bio).refs -= 1;
            if (*bio).refs != 0 {
                return;
            }
            let kept = (*bio).pages;
            assert!(matches!(kept, BioPages::None | BioPages::Zeroes), "a bio is put that is {kept:?}");
        }
        let (index, begin) = object(bio).unwrap();
        let flight = world(|w| w.objects[index].flight);
        assert!(!matches!(flight, Flight::Flying | Flight::Polled), "a bio is put in flight");
        free("bio", ptr::with_exposed_provenance_mut::<u8>(begin));
        point();
    }

    /// Takes a part of the memory for a bio.
    unsafe fn take(bio: *mut bio, iter: *mut iov_iter, max: usize, pages: BioPages) -> c_int {
        might_sleep("fault");
        point();
        let faults = world(|w| {
            w.facts.filled += 1;
            w.facts.filled == w.case.fault
        });
        if faults {
            facts(|f| f.perhaps.push(-14));
            return -14;
        }
        unsafe {
            let count = count(&mut *iter);
            let bytes = (*count).min(max).min(world(|w| w.case.bio_bytes));
            *count -= bytes;
            (*bio).bi_iter.bi_size = bytes as u32;
            (*bio).bi_vcnt = 1;
            (*bio).pages = pages;
        }
        0
    }

        pub(crate) unsafe fn bio_iov_iter_get_pages(bio: *mut bio, iter: *mut iov_iter, _: u32, _: u32) -> c_int {
        unsafe { take(bio, iter, usize::MAX, BioPages::Pinned) }
    }

    pub(crate) unsafe fn bio_iov_iter_bounce(
        bio: *mut bio,
        iter: *mut iov_iter,
        max: usize,
        _: usize,
    ) -> c_int {
        unsafe { take(bio, iter, max, BioPages::Bounced) }
    }

    pub(crate) unsafe fn bio_iov_iter_unbounce(bio: *mut bio, _failed: bool, _dirty: bool) {
        point();
        unsafe {
            if (*bio).bi_opf & req_op_REQ_OP_WRITE == 0 {
                might_sleep("copy to the caller's memory");
            }
            // Pages of zeroes are passed over.
            assert!(matches!((*bio).pages, BioPages::Bounced | BioPages::Zeroes));
            (*bio).pages = BioPages::None;
        }
    }

    pub(crate) unsafe fn bio_release_pages(bio: *mut bio, _: bool) {
        point();
        unsafe {
            assert_ne!((*bio).pages, BioPages::Bounced);
            if (*bio).pages == BioPages::Pinned {
                (*bio).pages = BioPages::None;
            }
        }
    }

    pub(crate) unsafe fn bio_set_pages_dirty(_: *mut bio) {
        might_sleep("page lock");
        point();
    }

    /// Gives the pages back and puts the bio, perhaps later: some pages may have been cleaned.
    pub(crate) unsafe fn bio_check_pages_dirty(bio: *mut bio) {
        point();
        let finish = move || unsafe {
            bio_release_pages(bio, false);
            bio_put(bio);
        };
        if once_in(3) {
            unsafe { (*bio).bi_private = ptr::null_mut() };
            step("dirty later", bio, 0);
            spawn("dirtier", finish);
            point();
        } else {
            finish();
        }
    }

    pub(crate) unsafe fn largest_zero_folio() -> *mut folio {
        ptr::null_mut()
    }

    pub(crate) unsafe fn folio_size(_: *const folio) -> usize {
        4096
    }

    pub(crate) unsafe fn bio_add_folio_nofail(bio: *mut bio, _: *mut folio, bytes: usize, _: usize) {
        unsafe {
            (*bio).bi_vcnt += 1;
            (*bio).bi_iter.bi_size += bytes as u32;
            (*bio).pages = BioPages::Zeroes;
        }
    }

    pub(crate) unsafe fn blk_status_to_errno(status: u8) -> c_int {
        -c_int::from(status)
    }

    pub(crate) unsafe fn bdev_write_cache(bdev: *mut block_device) -> bool {
        unsafe { (*(*bdev).bd_queue).limits.features & BLK_FEAT_WRITE_CACHE != 0 }
    }

    pub(crate) unsafe fn max_integrity_io_size(_: *mut queue_limits) -> u32 {
        0
    }

    pub(crate) unsafe fn blk_start_plug(_: *mut blk_plug) {}

    pub(crate) unsafe fn blk_finish_plug(_: *mut blk_plug) {
        point();
    }

    // --- The device ---

    /// Where a bio is, and where it goes on from there.
    fn fly(bio: *mut bio, from: Flight, to: Flight) -> bool {
        let Some((index, _)) = object(bio) else {
            panic!("no bio");
        };
        world(|w| {
            let object = &mut w.objects[index];
            assert_eq!(object.what, "bio");
            let goes = object.flight == from;
            if goes {
                object.flight = to;
            }
            goes
        })
    }

    pub(crate) unsafe fn submit_bio(bio: *mut bio) {
        might_sleep("submission");
        point();
        let (opf, pages, bytes) = unsafe { ((*bio).bi_opf, (*bio).pages, (*bio).bi_iter.bi_size) };
        step("submit", bio, bytes as usize);
        assert!(bytes > 0 && pages != BioPages::None, "an empty bio");
        facts(|f| {
            f.bios += 1;
            if pages != BioPages::Zeroes {
                f.bytes += bytes as usize;
                f.all_fua &= opf & 1 << req_flag_bits___REQ_FUA != 0;
            }
        });
        // A device need not support polling.
        let polled = opf & 1 << req_flag_bits___REQ_POLLED != 0 && !once_in(4);
        let to = if polled { Flight::Polled } else { Flight::Flying };
        assert!(fly(bio, Flight::Grounded, to), "submitted twice");
        if !polled {
            let interrupt = move || atomic(|| unsafe { bio_endio(bio, Flight::Flying) });
            if once_in(4) {
                interrupt();
            } else {
                spawn("interrupt", interrupt);
            }
        }
        point();
    }

    /// The device has done with a bio, unless another has found that already.
    unsafe fn bio_endio(bio: *mut bio, from: Flight) {
        if !fly(bio, from, Flight::Ended) {
            return;
        }
        if engine::draw(4) < world(|w| w.case.fails_of_4) {
            let status = 100 + facts(|f| f.bios) as u8;
            facts(|f| f.errors.push(-c_int::from(status)));
            unsafe { (*bio).bi_status = status };
        }
        let cached = unsafe { (*opened()).mapping.nrpages != 0 };
        facts(|f| f.cached_at_end = cached);
        step("end", bio, unsafe { (*bio).bi_status } as usize);
        unsafe { (*bio).bi_end_io.unwrap()(bio) };
    }

    pub(crate) unsafe fn iocb_bio_iopoll(iocb: *mut kiocb, _: *mut c_void, _: c_uint) -> c_int {
        engine::rcu_read_lock();
        let bio: *mut bio = unsafe { (*iocb).private }.cast();
        if !bio.is_null() {
            step("poll", bio, 0);
            // The memory stays a bio, perhaps another one.
            unsafe { bio_endio(bio, Flight::Polled) };
        }
        engine::rcu_read_unlock();
        0
    }
}
pub(crate) use functions::*;
