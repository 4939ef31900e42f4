// SPDX-License-Identifier: GPL-2.0

//! KUnit tests, on files and disks that are not registered.

use super::{
    bio::Template,
    bio_set::BioSet,
    flags::{
        BeginFlags,
        CallerFlags,
        EndIoFlags,
        MapFlags, //
    },
    iter::{
        Extent,
        Iter,
        Mapping, //
    },
    kiocb::{
        Answer,
        BusyIocb,
        NewIocb, //
    },
    ops::{
        DioOps,
        MapOps, //
    },
    request::{
        Cache,
        Prepared,
        Submitter,
        Unique, //
    },
    worker::{
        Batch,
        Operations, //
    },
};
use crate::{
    bindings,
    block::{
        bdev::BlockDevice,
        bio::{
            op,
            Bio,
            OpFlags, //
        },
    },
    fs::inode::Inode,
    iov::IovIter,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Completion, //
    },
    task::MaySleep,
    types::Opaque,
    workqueue, //
};
use core::ptr::{
    self,
    NonNull, //
};

/// A request whose owner only says that it was there.
#[derive(Clone, Copy)]
struct Probe {
    value: u32,
    /// Told when the request was punted, unless it is NULL.
    done: *const Completion,
}

// SAFETY: A completion may be told from any thread.
unsafe impl Send for Probe {}

impl Operations for Probe {
    type SimpleRead = Self;

    fn done_simple_read(_read: Self, _iocb: BusyIocb<()>) {}

    fn done(request: Unique<Self>) -> Option<Unique<Self>> {
        Some(request)
    }

    fn done_at_ioend(request: Unique<Self>, _ctx: MaySleep) -> Option<Unique<Self>> {
        Some(request)
    }

    fn complete_work(mut batch: Batch<Self>, _ctx: MaySleep) {
        while let Some(request) = batch.next() {
            // SAFETY: The test that punts a request waits for this.
            unsafe { (*over(request).done).complete_all() };
        }
    }

    fn goes_with(_: &Unique<Self>, _: &Unique<Self>) -> bool {
        true
    }
}

fn ctx() -> MaySleep {
    // SAFETY: KUnit runs tests in a kernel thread, without locks.
    unsafe { MaySleep::assume() }
}

/// A kiocb of a file of which there is nothing but what is looked at here.
#[repr(C)]
struct File {
    iocb: Opaque<bindings::kiocb>,
    file: Opaque<bindings::file>,
    inode: Opaque<bindings::inode>,
    sb: Opaque<bindings::super_block>,
    memory: Opaque<bindings::iov_iter>,
}

/// The `ki_complete()` of an asynchronous kiocb, which is answered instead.
unsafe extern "C" fn completed(_iocb: *mut bindings::kiocb, _ret: c_long) {}

/// The kiocb of a request, which [`over`] ends.
fn iocb<O>(ops: O) -> Result<BusyIocb<O>> {
    let file = File {
        iocb: Opaque::zeroed(),
        file: Opaque::zeroed(),
        inode: Opaque::zeroed(),
        sb: Opaque::zeroed(),
        memory: Opaque::zeroed(),
    };
    let file = KBox::into_raw(KBox::new(file, GFP_KERNEL)?);
    // SAFETY: All of it is valid until `over` frees it, and nobody truncates the file. Of several
    // requests nobody waits for the answer.
    unsafe {
        (*(*file).iocb.get()).ki_filp = (*file).file.get();
        (*(*file).iocb.get()).ki_complete = Some(completed);
        (*(*file).file.get()).f_inode = (*file).inode.get();
        (*(*file).inode.get()).i_sb = (*file).sb.get();
        Ok(NewIocb::from_raw((*file).iocb.get(), ops).begin_dio())
    }
}

/// Ends a request, and its kiocb with it.
fn over(request: Unique<Probe>) -> Probe {
    let (iocb, probe) = request.into_parts();
    end(iocb);
    *probe
}

fn end(iocb: BusyIocb<DioOps>) {
    let file = iocb.as_raw().cast::<File>();
    let (iocb, _) = iocb.end_io(0, 0, EndIoFlags::empty);
    iocb.end_dio().answer(0).into_raw();
    // SAFETY: From `iocb`, and nobody looks at it any more.
    let file = unsafe { KBox::from_raw(file) };
    // SAFETY: Nobody else changes the count.
    let left = unsafe { Atomic::from_ptr(&raw mut (*file.inode.get()).i_dio_count.counter) };
    assert_eq!(left.load(Relaxed), 0);
}

/// The request, which was not left to its bios.
fn sealed(sealed: Result<Unique<Probe>, Answer>) -> Result<Unique<Probe>> {
    sealed.map_err(|answer| {
        answer.into_raw();
        EINVAL
    })
}

// SAFETY: No bio of such a request is submitted, and the super block of the tests has no lists.
static CACHE: Cache<Probe> = unsafe { Cache::new() };
static CACHE_READY: AtomicFlag = AtomicFlag::new(false);

fn start(value: u32) -> Result<Submitter<'static, Probe>> {
    let iocb = iocb(DioOps::none())?;
    let file = iocb.as_raw().cast::<File>();
    // SAFETY: Zeroes are an iterator, over nothing. It is there until `over` frees it.
    let memory = unsafe { IovIter::from_raw((*file).memory.get()) };
    submitter(iocb, memory, value)
}

fn submitter<'d>(
    iocb: BusyIocb<DioOps>,
    memory: IovIter<'d>,
    value: u32,
) -> Result<Submitter<'d, Probe>> {
    if !CACHE_READY.xchg(true, Relaxed) {
        CACHE.init(c"iomap_dio_kunit", ctx())?;
    }
    let probe = Probe {
        value,
        done: ptr::null(),
    };
    let prepared = Prepared::new(&CACHE, ctx())?;
    Ok(Submitter::new(prepared, iocb, probe, memory, false))
}

/// Memory of the kernel, with an iterator.
struct Memory {
    bytes: KVec<u8>,
    vec: bindings::kvec,
    iter: Opaque<bindings::iov_iter>,
}

impl Memory {
    fn new(byte: u8, len: usize) -> Result<Self> {
        let mut bytes = KVec::from_elem(byte, len, GFP_KERNEL)?;
        Ok(Self {
            vec: bindings::kvec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: len,
            },
            bytes,
            iter: Opaque::zeroed(),
        })
    }

    fn iter(&mut self, direction: u32) -> IovIter<'_> {
        // SAFETY: The bytes, the vector and the iterator are ours, and borrowed as long.
        unsafe {
            bindings::iov_iter_kvec(self.iter.get(), direction, &self.vec, 1, self.vec.iov_len);
            IovIter::from_raw(self.iter.get())
        }
    }
}

/// A bio that will not be submitted.
#[cfg(not(CONFIG_BLK_CGROUP))]
fn new_bio(bdev: &BlockDevice, write: bool) -> Result<Bio> {
    let set = &raw mut bindings::fs_bio_set;
    // SAFETY: This bio set is never destroyed, and the context may sleep.
    unsafe { Bio::alloc(bdev, 1, op(write), GFP_KERNEL, set) }.ok_or(ENOMEM)
}

/// How often a file system was called, and the device of its mappings; without one they are inline.
#[derive(Default)]
struct FileSystem {
    begun: u32,
    ended: u32,
    bdev: Option<NonNull<bindings::block_device>>,
    /// Bytes from the position to the mapping.
    gap: i64,
    /// The current data is in another mapping, which ends before the position.
    stale_source: bool,
    /// The mapping is a hole.
    hole: bool,
    /// The inline data, if somebody will look at them.
    data: Option<NonNull<c_void>>,
}

impl FileSystem {
    /// Whose mapping this is.
    ///
    /// # Safety
    ///
    /// The mapping must be that of an iterator whose private data are a file system.
    unsafe fn of<'a>(map: *mut bindings::iomap) -> &'a mut Self {
        // SAFETY: Required of the caller.
        unsafe {
            let iter = crate::container_of!(map, bindings::iomap_iter, iomap);
            &mut *(*iter).private.cast()
        }
    }
}

unsafe extern "C" fn begin(
    _inode: *mut bindings::inode,
    pos: bindings::loff_t,
    _len: bindings::loff_t,
    _flags: c_uint,
    map: *mut bindings::iomap,
    srcmap: *mut bindings::iomap,
) -> c_int {
    // SAFETY: So it is in these tests; the mapping is to be filled in.
    unsafe {
        let fs = FileSystem::of(map);
        fs.begun += 1;
        (*map).offset = pos + fs.gap;
        (*map).length = 4096;
        if fs.hole {
            (*map).type_ = bindings::IOMAP_HOLE as u16;
        } else if let Some(bdev) = fs.bdev {
            (*map).type_ = bindings::IOMAP_MAPPED as u16;
            (*map).bdev = bdev.as_ptr();
        } else {
            (*map).type_ = bindings::IOMAP_INLINE as u16;
            (*map).inline_data = fs.data.map_or(map.cast(), NonNull::as_ptr);
        }
        if fs.stale_source {
            (*srcmap).type_ = bindings::IOMAP_MAPPED as u16;
            (*srcmap).length = 512;
        }
    }
    0
}

unsafe extern "C" fn end_mapping(
    _inode: *mut bindings::inode,
    _pos: bindings::loff_t,
    _len: bindings::loff_t,
    _written: isize,
    _flags: c_uint,
    map: *mut bindings::iomap,
) -> c_int {
    // SAFETY: As in `begin`.
    unsafe { FileSystem::of(map).ended += 1 };
    0
}

/// Counts the warnings of `f`, which are not shown.
fn warnings(f: impl FnOnce() -> Result) -> Result<c_int> {
    // SAFETY: Called by a KUnit test, in its task.
    unsafe {
        let test = bindings::kunit_get_current_test();
        let suppressed = bindings::kunit_start_suppress_warning(test);
        let result = f();
        let count = bindings::kunit_suppressed_warning_count(suppressed);
        bindings::kunit_end_suppress_warning(test, suppressed);
        result.map(|()| count)
    }
}

/// A file on a device of which there is nothing but what is looked at here, mapped for writing.
#[cfg(not(CONFIG_BLK_CGROUP))]
struct Disk {
    bdev: Opaque<bindings::block_device>,
    disk: Opaque<bindings::gendisk>,
    queue: Opaque<bindings::request_queue>,
}

#[cfg(not(CONFIG_BLK_CGROUP))]
impl Disk {
    fn new() -> Result<KBox<Self>> {
        let disk = KBox::new(
            Self {
                bdev: Opaque::zeroed(),
                disk: Opaque::zeroed(),
                queue: Opaque::zeroed(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: Nobody else knows of these.
        unsafe {
            (*disk.bdev.get()).bd_disk = disk.disk.get();
            (*disk.bdev.get()).bd_queue = disk.queue.get();
            (*disk.disk.get()).queue = disk.queue.get();
            (*disk.queue.get()).limits.logical_block_size = 512;
        }
        Ok(disk)
    }

    fn bdev(&self) -> &BlockDevice {
        // SAFETY: It lives as long as the disk.
        unsafe { BlockDevice::from_raw(self.bdev.get()) }
    }
}

// SAFETY: The test is refused before it is used.
#[cfg(not(CONFIG_BLK_CGROUP))]
static BIOS: BioSet<Probe> = unsafe { BioSet::new() };

/// Begins with bios, and submits none.
#[cfg(not(CONFIG_BLK_CGROUP))]
fn template(request: &mut Submitter<'_, Probe>, extent: Extent<'_>) -> Result<usize> {
    let bios = Template::new(request, extent.span(false)?, OpFlags::SYNC, ctx());
    bios.map(|bios| bios.submitted()).ok_or(EINVAL)
}

#[macros::kunit_tests(rust_iomap)]
mod cases {
    use super::*;

    #[test]
    fn last_bio_says_where_it_ended() -> Result {
        let submitter = start(3)?;
        let (first, last) = (submitter.bio_ref()?, submitter.bio_ref()?);
        assert!(first.finish(true).is_none());
        assert!(sealed(submitter.seal(ctx())).is_err());
        let request = last.finish(false).ok_or(EINVAL)?;
        let (iocb, probe) = request.into_parts();
        assert!(!probe.at_ioend());
        assert_eq!(probe.value, 3);
        end(iocb);
        Ok(())
    }

    #[test]
    fn references_run_out() -> Result {
        let submitter = start(4)?;
        submitter.shared.bio_refs.set(i32::MAX);
        assert_eq!(submitter.bio_ref().err(), Some(EOVERFLOW));
        assert_eq!(submitter.shared.bio_refs.replace(0), i32::MAX);
        assert_eq!(over(sealed(submitter.seal(ctx()))?).value, 4);
        Ok(())
    }

    /// Other tests and loom have both orders; here a task really sleeps and is woken.
    #[test]
    fn waiter_gets_the_request_back() -> Result {
        // Often enough that both orders of the race occur.
        for round in 0..200 {
            let submitter = start(round)?;
            let bio_ref = submitter.bio_ref()?;
            workqueue::system().try_spawn(GFP_KERNEL, move || {
                if round % 2 == 0 {
                    bio_ref.record_error(EIO);
                }
                // Nothing to own here: either the submitter is not done, or it waits. Where it
                // ended is known all the same, if it was the last.
                drop(bio_ref.finish(true));
            })?;
            let request = sealed(Ok(submitter.wait(ctx())))?;
            assert_eq!(request.result().is_err(), round % 2 == 0);
            assert_eq!(over(request).value, round);
        }
        Ok(())
    }

    #[test]
    fn synchronous_kiocb_is_waited_for() -> Result {
        let submitter = start(5)?;
        // SAFETY: The kiocb is the submitter's.
        unsafe { (*submitter.iocb().as_raw()).ki_complete = None };
        let bio_ref = submitter.bio_ref()?;
        workqueue::system().try_spawn(GFP_KERNEL, move || drop(bio_ref.finish(false)))?;
        assert_eq!(over(sealed(submitter.seal(ctx()))?).value, 5);
        Ok(())
    }

    #[test]
    fn punted_request_runs_on_the_queue() -> Result {
        let mut submitter = start(6)?;
        let done = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        submitter.dio_mut().done = &raw const *done;
        let request = sealed(submitter.seal(ctx()))?;
        // It has no queue of its own, so it is the system's.
        request.punt();
        done.wait_for_completion();
        Ok(())
    }

    #[test]
    fn flag_words_overlap_and_differ() {
        // The reason why there are two types.
        assert_eq!(
            CallerFlags::FORCE_WAIT.into_raw(),
            EndIoFlags::UNWRITTEN.into_raw()
        );
        assert_eq!(
            CallerFlags::OVERWRITE_ONLY.into_raw(),
            EndIoFlags::COW.into_raw()
        );
        // What C does not know is passed on.
        assert_eq!(MapFlags::from_raw(0x8000).into_raw(), 0x8000);
        // A feature that is off is never reported.
        let none = MapFlags::from_raw(0);
        assert!(!MapFlags::from_raw(0xffff).has(none));
        assert!(!none.has(MapFlags::INTEGRITY));
    }

    #[test]
    fn iterators_are_cut_and_restored() -> Result {
        let mut buffer = Memory::new(0xff, 4096)?;
        let mut memory = buffer.iter(bindings::ITER_DEST);

        assert!(!memory.is_source() && !memory.is_user_backed());
        let start = memory.mark();
        let (zeroed, left) = memory.cut(1024, |memory| {
            assert_eq!(memory.len(), 1024);
            // A mark of the part is none of the whole.
            let mark = memory.mark();
            let zeroed = memory.zero(512, ctx());
            assert_eq!(memory.zero(256, ctx()), 256);
            memory.rewind(mark, 512);
            (zeroed, memory.len())
        });
        assert_eq!((zeroed, left), (512, 512));
        assert_eq!(memory.len(), 4096 - 512);
        // A cut that is none.
        assert_eq!(memory.cut(8192, |memory| memory.len()), 4096 - 512);

        // Back as far as is asked for, at most to the mark, and never forward.
        let later = memory.mark();
        assert_eq!(memory.zero(88, ctx()), 88);
        memory.rewind(start, 4096);
        assert_eq!(memory.len(), 4096 - 600);
        memory.rewind(later, 10);
        assert_eq!(memory.len(), 4096 - 522);
        memory.rewind(start, 100);
        assert_eq!(memory.len(), 4096 - 100);
        memory.rewind(later, 0);
        assert_eq!(memory.len(), 4096 - 100);
        memory.rewind(start, 0);
        assert_eq!(memory.len(), 4096);
        assert_eq!(memory.zero(u64::MAX, ctx()), 4096);
        assert!(memory.is_empty());
        assert!(buffer.bytes.iter().all(|&byte| byte == 0));
        Ok(())
    }

    #[test]
    fn marks_of_others_are_ignored() -> Result {
        let (mut one, mut other) = (Memory::new(0, 512)?, Memory::new(0, 1024)?);
        let mut one = one.iter(bindings::ITER_DEST);
        let other = other.iter(bindings::ITER_DEST);
        assert_eq!(one.zero(256, ctx()), 256);
        one.rewind(other.mark(), 0);
        assert_eq!(one.len(), 256);
        Ok(())
    }

    /// A bio that is filled with zeroes has to have the segments for them.
    #[cfg(not(CONFIG_BLK_CGROUP))]
    #[test]
    fn zeroes_fit_their_bio() -> Result {
        assert_eq!(Bio::zero_vecs(u32::MAX).err(), Some(EINVAL));
        assert_eq!(Bio::zero_vecs(0)?, 1);
        let disk = Disk::new()?;
        let bio = || new_bio(disk.bdev(), true);
        assert_eq!(bio()?.zero(512)?.size(), 512);
        assert_eq!(bio()?.zero(u32::MAX).err(), Some(EINVAL));
        Ok(())
    }

    /// A bio has integrity data once, however often the file system asks for it.
    #[cfg(all(CONFIG_BLK_DEV_INTEGRITY, not(CONFIG_BLK_CGROUP)))]
    #[test]
    fn bios_are_protected_once() -> Result {
        let disk = Disk::new()?;
        for write in [false, true] {
            // SAFETY: Nobody else knows of the disk.
            unsafe {
                (*disk.queue.get()).limits.integrity = bindings::blk_integrity {
                    csum_type: bindings::blk_integrity_checksum_BLK_INTEGRITY_CSUM_CRC,
                    metadata_size: 8,
                    interval_exp: 9,
                    pi_tuple_size: 8,
                    ..pin_init::zeroed()
                };
            }
            let mut bio = new_bio(disk.bdev(), write)?.zero(512)?;
            // SAFETY: The bio is ours.
            let data = |bio: &crate::block::bio::Filled| unsafe { (*bio.as_raw()).bi_integrity };
            bio.protect(ctx());
            let first = data(&bio);
            assert!(!first.is_null());
            bio.protect(ctx());
            assert_eq!(data(&bio), first);
        }
        Ok(())
    }

    /// The file system ends a mapping once, whatever the walk does, and nobody finds it afterwards.
    #[test]
    fn mappings_end_once() -> Result {
        let inode = KBox::new(Opaque::<bindings::inode>::zeroed(), GFP_KERNEL)?;
        let mut fs = FileSystem::default();
        let ops = bindings::iomap_ops {
            iomap_begin: Some(begin),
            iomap_end: Some(end_mapping),
            ..pin_init::zeroed()
        };
        let (mut memory, mut source) = (Memory::new(0, 8192)?, Memory::new(0, 1)?);
        let memory = memory.iter(bindings::ITER_DEST);
        let mut source = source.iter(bindings::ITER_SOURCE);
        let private = (&raw mut fs).cast();
        // SAFETY: All of these live to the end of the test; the callbacks look at nothing else.
        let ops = || unsafe {
            let inode = Inode::from_raw(inode.get());
            MapOps::from_raw(&ops, inode, private, 0, &memory)
        };

        Iter::over(ops(), BeginFlags::DIRECT, |iter| {
            assert!(matches!(iter.mapping(), Mapping::Unknown));
            assert!(iter.begin(ctx())?);
            let Mapping::Inline(inline) = iter.mapping() else {
                return Err(EINVAL);
            };
            // It is mapped for reading.
            assert_eq!(inline.copy(&mut source, ctx()).err(), Some(EINVAL));
            assert_eq!(iter.length(), 4096);
            assert_eq!(iter.next(Err(EIO), ctx()).err(), Some(EIO));
            assert_eq!(iter.length(), 0);
            iter.end(ctx());
            iter.end(ctx());
            // It stays over: nobody is asked again.
            assert!(!iter.next(Ok(()), ctx())?);
            assert!(!iter.begin(ctx())?);
            Ok(())
        })?;
        assert_eq!((fs.begun, fs.ended), (1, 1));

        // Also if it does not cover the rest of the range, which is warned of once.
        let told = warnings(|| {
            Iter::over(ops(), BeginFlags::DIRECT, |iter| {
                assert!(iter.begin(ctx())?);
                iter.end(ctx());
                assert_eq!(iter.length(), 0);
                Ok(())
            })
        })?;
        assert!(told <= 1);
        assert_eq!((fs.begun, fs.ended), (2, 2));

        // Whoever leaves a mapping is told, if this kernel checks for it.
        let left = warnings(|| {
            Iter::over(ops(), BeginFlags::DIRECT, |iter| {
                assert!(iter.begin(ctx())?);
                Ok(())
            })
        })?;
        assert_eq!(left, c_int::from(cfg!(CONFIG_DEBUG_VFS)));
        Ok(())
    }

    /// Inline data are copied as far as they go, also if the current data is in another mapping.
    #[test]
    fn inline_data_end_with_their_mapping() -> Result {
        let inode = KBox::new(Opaque::<bindings::inode>::zeroed(), GFP_KERNEL)?;
        let mut data = Memory::new(7, 4096)?;
        let mut fs = FileSystem {
            stale_source: true,
            data: NonNull::new(data.bytes.as_mut_ptr().cast()),
            ..FileSystem::default()
        };
        let ops = bindings::iomap_ops {
            iomap_begin: Some(begin),
            ..pin_init::zeroed()
        };
        let mut copy = Memory::new(0, 8192)?;
        let mut memory = copy.iter(bindings::ITER_DEST);
        // SAFETY: All of these live to the end of the test; the callback looks at nothing else.
        let ops = unsafe {
            let inode = Inode::from_raw(inode.get());
            MapOps::from_raw(&ops, inode, (&raw mut fs).cast(), 4096, &memory)
        };
        Iter::over(ops, BeginFlags::DIRECT, |iter| {
            assert!(iter.begin(ctx())?);
            let Mapping::Inline(inline) = iter.mapping() else {
                return Err(EINVAL);
            };
            assert_eq!(inline.copy(&mut memory, ctx()), Ok(4096));
            Ok(())
        })?;
        assert_eq!(copy.bytes[4095..4097], [7, 0]);
        Ok(())
    }

    /// What bios transfer is within the mapping, of its file and in its direction, in whole blocks.
    #[cfg(not(CONFIG_BLK_CGROUP))]
    #[test]
    fn spans_are_checked() -> Result {
        let disk = Disk::new()?;
        let ops = bindings::iomap_ops {
            iomap_begin: Some(begin),
            ..pin_init::zeroed()
        };
        let mut fs = FileSystem {
            bdev: NonNull::new(disk.bdev.get()),
            ..FileSystem::default()
        };
        let (mut source, mut target) = (Memory::new(0, 8192)?, Memory::new(0, 8192)?);
        let mut another = Memory::new(0, 8192)?;
        let memory = source.iter(bindings::ITER_SOURCE);
        let own = iocb(DioOps::none())?;
        let other = submitter(
            iocb(DioOps::none())?,
            another.iter(bindings::ITER_SOURCE),
            8,
        )?;
        // SAFETY: All of these live to the end of the test.
        let inode = unsafe { Inode::from_raw((*(*own.as_raw()).ki_filp).f_inode) };
        // SAFETY: As above.
        let ops = |fs: &mut FileSystem| unsafe {
            MapOps::from_raw(&ops, inode, ptr::from_mut(fs).cast(), 4096, &memory)
        };

        for (gap, hole) in [(1, false), (-4096, false), (1, true), (-4096, true)] {
            (fs.gap, fs.hole) = (gap, hole);
            Iter::over(ops(&mut fs), BeginFlags::DIRECT, |iter| {
                assert!(iter.begin(ctx())?);
                assert!(matches!(iter.mapping(), Mapping::Unknown));
                Ok::<(), Error>(())
            })?;
        }
        (fs.gap, fs.hole) = (0, false);

        fs.stale_source = true;
        Iter::over(ops(&mut fs), BeginFlags::DIRECT, |iter| {
            assert!(iter.begin(ctx())?);
            let Mapping::Mapped(extent) = iter.mapping() else {
                return Err(EINVAL);
            };
            assert_eq!(extent.span(false)?.len, 4096);
            Ok(())
        })?;
        fs.stale_source = false;

        Iter::over(ops(&mut fs), BeginFlags::DIRECT, |iter| {
            // Without a mapping there is nothing, also here.
            assert_eq!(iter.length(), 0);
            let mut found = iter.begin(ctx())?;
            // The last mapping is longer than what is left.
            let mut bytes = 2048;
            while found {
                assert!(iter.begin(ctx())?);
                let status = iter.advance(bytes);
                found = iter.next(status, ctx())?;
                bytes = iter.length();
            }
            assert_eq!(iter.remaining(), 0);
            assert!(!iter.begin(ctx())?);
            Ok::<(), Error>(())
        })?;

        let (own, other) = Iter::over(ops(&mut fs), BeginFlags::DIRECT, |iter| {
            assert!(iter.begin(ctx())?);
            let Mapping::Mapped(extent) = iter.mapping() else {
                return Err(EINVAL);
            };
            // The mapping covers one block of the two.
            assert_eq!(extent.whole(false).err(), Some(ENOTBLK));
            let span = || extent.span(false).map(|_| ());
            assert_eq!(span(), Ok(()));
            // SAFETY: Nobody else knows of the disk.
            let limits = unsafe { &raw mut (*disk.queue.get()).limits };
            // SAFETY: As above.
            unsafe { (*limits).logical_block_size = 8192 };
            assert_eq!(span().err(), Some(EINVAL));
            // SAFETY: As above.
            unsafe { (*limits).logical_block_size = 512 };

            let mut other = other;
            // Of another file, for the other direction, right, and further.
            assert_eq!(template(&mut other, extent).err(), Some(EINVAL));
            let mut own = submitter(own, target.iter(bindings::ITER_DEST), 7)?;
            assert_eq!(template(&mut own, extent).err(), Some(EINVAL));
            let own = sealed(own.seal(ctx()))?;
            let (iocb, _) = own.into_parts();
            let mut own = submitter(iocb, memory, 7)?;
            assert_eq!(template(&mut own, extent)?, 0);
            let bios = Template::new(&mut own, extent.span(false)?, OpFlags::SYNC, ctx());
            let mut bios = bios.ok_or(EINVAL)?;
            // After the zeroes, which are none for a whole block, there is nothing.
            assert_eq!(bios.zero_tail(), Ok(()));
            assert_eq!(bios.submit_next(), Err(EINVAL));
            own.memory.advance(4096);
            assert_eq!(template(&mut own, extent).err(), Some(EINVAL));

            // One bio of all that is left is for the kiocb of this file, and of something.
            let mut block = Memory::new(0, 4096)?;
            let mut block = block.iter(bindings::ITER_SOURCE);
            assert_eq!(iter.advance(4096), Ok(()));
            assert!(iter.next(Ok(()), ctx())?);
            let Mapping::Mapped(extent) = iter.mapping() else {
                return Err(EINVAL);
            };
            let whole = extent.whole(false)?;
            let none = DioOps::none().only_end_io::<false>();
            let stranger = super::iocb(none.ok_or(EINVAL)?)?;
            let flags = OpFlags::SYNC;
            let filled = BIOS.fill(stranger, &whole, &mut block, flags, ctx());
            let Err((stranger, error)) = filled else {
                return Err(EINVAL);
            };
            assert_eq!(error, EINVAL);
            end(stranger.into_dio());
            assert_eq!(iter.advance(4096), Ok(()));
            let Mapping::Unknown = iter.mapping() else {
                return Err(EINVAL);
            };
            Ok((own, other))
        })?;
        over(sealed(own.seal(ctx()))?);
        over(sealed(other.seal(ctx()))?);
        Ok(())
    }

    /// A request that is lost leaves somebody waiting, which the log tells.
    #[test]
    fn lost_handles_are_warned_of() -> Result {
        let none = DioOps::none;
        let told = |iocb: BusyIocb<DioOps>| iocb.end_io(0, 0, EndIoFlags::empty).0;
        assert_eq!(warnings(|| Ok(drop(iocb(none())?)))?, 1);
        assert_eq!(warnings(|| Ok(drop(told(iocb(none())?))))?, 1);
        assert_eq!(warnings(|| Ok(drop(told(iocb(none())?).end_dio())))?, 1);
        let answer = |result| Ok::<_, Error>(told(iocb(none())?).end_dio().answer(result));
        assert_eq!(warnings(|| Ok(drop(answer(0)?)))?, 1);
        assert_eq!(warnings(|| Ok(drop(start(1)?)))?, 1);
        assert_eq!(warnings(|| Ok(drop(sealed(start(1)?.seal(ctx()))?)))?, 1);

        // That a request is queued is no result.
        let queued = -(bindings::EIOCBQUEUED as isize);
        let mut result = 0;
        assert_eq!(warnings(|| Ok(result = answer(queued)?.into_raw()))?, 1);
        assert_eq!(result, EIO.to_errno() as isize);
        assert_eq!(warnings(|| Ok(result = answer(5)?.into_raw()))?, 0);
        assert_eq!(result, 5);

        // A number of bytes is no pointer.
        let mut request = ptr::null_mut::<()>();
        assert_eq!(warnings(|| Ok(request = answer(5)?.into_err_ptr()))?, 1);
        assert_eq!(request, EIO.to_ptr());
        Ok(())
    }

    #[test]
    fn iterators_know_their_direction() -> Result {
        let mut memory = Memory::new(0, 0)?;
        let mut memory = memory.iter(bindings::ITER_SOURCE);
        assert!(memory.is_source());
        assert_eq!(memory.zero(1, ctx()), 0);
        Ok(())
    }
}
