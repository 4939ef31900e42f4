// SPDX-License-Identifier: GPL-2.0

//! Requests that a worker completes, many at once.
//!
//! A request that has to sleep before it is over is punted to the work queue of its super block
//! (`s_dio_done_wq`). Beside the queue are lists, one of which is for its inode. A request that
//! finds the list empty leads: it queues its own work item, which takes whatever is on the list by
//! the time it runs.
//!
//! ```text
//!  any context                               workers
//!
//!  punt() of A: first, so queues A ----+
//!  punt() of B: behind A               |
//!  punt() of C, of another inode       |
//!                                      +--> takes A, B, C
//!  punt() of D: first again --+             queues C -----------> completes C
//!                             |             completes A, B
//!                             +-----------------------------------> takes D, completes D
//! ```
//!
//! So each request on a list has a work item that is queued: none waits for a worker that is busy,
//! for example with a flush. Inodes may share a list, but requests of one never wait for those of
//! another, which may be what the other waits for. Nor does a write wait for a flush that does not
//! make it stable ([`Operations::goes_with`]). The lists belong to the super block, so a file
//! system on a loop device does not wait for the one below.
//!
//! Only the leader and its work item use the queue and the list afterwards: any other request may
//! be over, and the file system unmounted, once it is on the list.
//!
//! A work queue tells work items apart by their address, and lets one that runs already wait for
//! the worker that runs it. So the memory of the request whose work item runs is freed last
//! ([`Batch::free`]): the next request there could be what the worker waits for, for example one to
//! the file below the loop device that this file system is on.
//!
//! C header: [`include/linux/fs/super_types.h`](srctree/include/linux/fs/super_types.h).

use super::{
    flags::EndIoFlags,
    handover::Llist,
    kiocb::BusyIocb,
    request::{
        Head,
        Over,
        Unique, //
    },
    stats::{
        self,
        Stat, //
    },
};
use crate::{
    bindings,
    prelude::*,
    static_lock_class,
    task::MaySleep,
    types::Opaque,
    workqueue::{
        self,
        RawWorkItem, //
    },
};
use core::{
    iter,
    mem::{
        self,
        ManuallyDrop, //
    },
    ptr::{
        self,
        NonNull, //
    },
};

/// The most bytes that a file system is told of at once, so that its transaction stays small.
const MOST_BYTES: isize = 16 << 20;

/// Requests that a worker completes: all of a list at first, then those of one inode that go with
/// each other ([`Operations::goes_with`]), by position in the file.
///
/// # Invariants
///
/// `first` is NULL or a request that belongs to this value. The `next` of each leads to another, or
/// is NULL.
pub struct Batch<T: Operations> {
    first: *mut Head<T>,
    /// The request whose work item runs.
    running: *const Head<T>,
    /// What is left of it, if it is over.
    left: Option<Over<T>>,
    /// A file system has failed to hear of several together.
    alone: bool,
}

impl<T: Operations> Batch<T> {
    /// The most requests that one worker completes.
    pub const MOST: usize = 32;

    /// The requests from `first` on. The caller guarantees the invariants.
    fn new(first: *mut Head<T>, running: *const Head<T>) -> Self {
        Self {
            first,
            running,
            left: None,
            alone: false,
        }
    }

    /// Takes the next request out.
    #[expect(clippy::should_implement_trait)] // The others are looked at in between.
    #[inline]
    pub fn next(&mut self) -> Option<Unique<T>> {
        let (first, next) = self.links().next()?;
        // INVARIANT: The others stay ours, and nothing leads to this one.
        self.first = next;
        Some(ManuallyDrop::into_inner(first))
    }

    /// Whether there is no request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Frees the memory of a request that is over. That of the request whose work item runs stays
    /// as long as the batch, which has to live until the worker does not sleep any more.
    #[inline]
    pub fn free(&mut self, over: Over<T>) {
        if over.is_at(self.running) {
            self.left = Some(over);
        }
    }

    /// The requests in the batch.
    fn iter(&mut self) -> impl Iterator<Item = ManuallyDrop<Unique<T>>> + '_ {
        self.links().map(|(request, _)| request)
    }

    /// As [`Batch::iter`], each with what its `next` leads to.
    fn links(&mut self) -> impl Iterator<Item = (ManuallyDrop<Unique<T>>, *mut Head<T>)> + '_ {
        let mut next = self.first;
        iter::from_fn(move || {
            let at = NonNull::new(next)?;
            // SAFETY: By the invariants it is ours. It is not dropped, and the next one is another.
            unsafe {
                next = at.as_ref().next.assume_init();
                let request = Unique::from_raw(at.as_ptr().cast());
                Some((ManuallyDrop::new(request), next))
            }
        })
    }

    /// The inode of the first request.
    fn inode(&mut self) -> Option<*mut bindings::inode> {
        let first = self.iter().next()?;
        Some(first.iocb().inode().as_raw())
    }

    /// Puts a request behind the others, of which `last` is the last one.
    fn push(&mut self, last: &mut Option<ManuallyDrop<Unique<T>>>, request: Unique<T>) {
        let mut request = ManuallyDrop::new(request);
        // INVARIANT: It is ours, and leads nowhere.
        request.head_mut().next.write(ptr::null_mut());
        let head = ptr::from_mut(request.head_mut());
        match last {
            Some(last) => _ = last.head_mut().next.write(head),
            None => self.first = head,
        }
        *last = Some(request);
    }

    /// Puts a request in front of the first one that does not begin before it.
    ///
    /// Looks at as many as one worker completes: the order serves only that.
    fn insert(&mut self, request: Unique<T>) {
        let pos = request.iocb().ki_pos();
        let head: *mut Head<T> = request.into_raw().cast();
        let mut link = &raw mut self.first;
        // SAFETY: By the invariants the requests are ours, and so are their links.
        // INVARIANT: What was behind the link is behind the request.
        unsafe {
            for _ in 0..Self::MOST {
                let other = *link;
                if other.is_null() || (*other).left.iocb.ki_pos() >= pos {
                    break;
                }
                link = (&raw mut (*other).next).cast();
            }
            (*head).next.write(*link);
            *link = head;
        }
    }

    /// Tells the file system at once that the bios of `first`, and of the requests in the batch
    /// that follow it in the file without a gap, have ended (`IOMAP_DIO_MERGE_END_IO`).
    ///
    /// `describe` returns the size of a request in bytes and the flags that the file system would
    /// get, or `None` if it has to be told alone. All need the same flags.
    ///
    /// [`BusyIocb::end_io`] does not tell of them again, unless this fails: then it tells of each
    /// of the batch alone, so that each gets its own error or none.
    ///
    /// [`BusyIocb::end_io`]: super::kiocb::BusyIocb::end_io
    pub fn end_io_together(
        &mut self,
        first: &mut Unique<T>,
        describe: impl Fn(&Unique<T>) -> Option<(isize, EndIoFlags)>,
        _ctx: MaySleep,
    ) {
        if self.alone {
            return;
        }
        let Some(ops) = first.iocb().ops_to_merge() else {
            return;
        };
        let Some((mut size, flags)) = describe(first) else {
            return;
        };
        let mut others: usize = 0;
        for next in self.iter() {
            // CAST: Widening.
            // OVERFLOW: A position in the file.
            let end = first.iocb().ki_pos().wrapping_add(size as i64);
            let alike = ptr::eq(next.iocb().inode(), first.iocb().inode())
                && next.iocb().ops_to_merge() == Some(ops);
            if next.iocb().ki_pos() != end || !alike {
                break;
            }
            let Some((more, other)) = describe(&next) else {
                break;
            };
            let len = size.saturating_add(more);
            if other != flags || len > MOST_BYTES {
                break;
            }
            // OVERFLOW: A small number.
            (size, others) = (len, others.wrapping_add(1));
        }
        if others == 0 {
            return;
        }
        self.alone = first.iocb().end_io_together(size, flags) != 0;
        if self.alone {
            return;
        }
        stats::count(Stat::MergedRuns);
        // OVERFLOW: A small number.
        stats::add(Stat::MergedWrites, others.wrapping_add(1));
        // SAFETY: The file system was told of all of them just now.
        unsafe {
            first.head_mut().left.iocb.assume_told();
            for mut other in self.iter().take(others) {
                other.head_mut().left.iocb.assume_told();
            }
        }
    }
}

impl<T: Operations> Drop for Batch<T> {
    /// Drops the requests, which warns.
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

impl<T: Operations> Batch<T> {
    /// Keeps the requests of `inode`, and returns the others as they come: the last one first, for
    /// which [`Self::insert`] takes one step. If there are more of `inode` than one worker
    /// completes, the last ones are kept and other workers get the rest.
    fn split_off(&mut self, inode: *mut bindings::inode) -> Self {
        // INVARIANT: Each request belongs to one of them.
        let mut all = Self::new(mem::replace(&mut self.first, ptr::null_mut()), ptr::null());
        let mut others = Self::new(ptr::null_mut(), ptr::null());
        let mut last = None;
        let mut count = 0;
        while let Some(request) = all.next() {
            if request.iocb().inode().as_raw() != inode {
                others.push(&mut last, request);
                continue;
            }
            if count == Self::MOST {
                self.punt_others();
                count = 0;
            }
            self.insert(request);
            // OVERFLOW: No more than `MOST`.
            count = count.wrapping_add(1);
        }
        others
    }

    /// Takes the first request out, and those behind it that go with it. Says whether the one whose
    /// work item runs is among them.
    fn split_first(&mut self) -> Option<(*mut Head<T>, bool)> {
        let running = self.running;
        let mut links = self.links();
        let (mut last, mut rest) = links.next()?;
        let mut runs = last.is_at(running);
        for (request, next) in links {
            if !T::goes_with(&last, &request) {
                break;
            }
            runs |= request.is_at(running);
            (last, rest) = (request, next);
        }
        // INVARIANT: Nothing leads from one to the other any more.
        last.head_mut().next.write(ptr::null_mut());
        Some((mem::replace(&mut self.first, rest), runs))
    }

    /// Leaves the requests to other workers, one for those that go with each other. Keeps those
    /// that go with the one whose work item runs.
    fn punt_others(&mut self) {
        let mut own = ptr::null_mut();
        while let Some((head, runs)) = self.split_first() {
            if runs {
                own = head;
            } else {
                let run = complete_chain::<T>;
                Punted { head, run }.enqueue();
            }
        }
        // INVARIANT: They were taken out, and are nowhere else.
        self.first = own;
    }
}

/// The description of a request, and what is done when its bios have ended.
///
/// For each request that was left to its bios the kernel calls exactly one of [`Operations::done`]
/// and [`Operations::done_at_ioend`], unless it is a bounced read whose data still has to be
/// copied, or a simple read that has failed: those are punted without either. Both functions own
/// the request and have to complete it, or to return it, which punts it. For a simple read that
/// went well the kernel calls [`Operations::done_simple_read`] instead. A submission that waits, or
/// that leaves a request whose bios have all ended, completes it itself; neither is called then.
pub trait Operations: Sized + Send + 'static {
    /// What is kept of a simple read, which is given away with its bio. It becomes a whole request
    /// if the bio fails.
    #[doc(alias = "iomap_dio_simple")]
    type SimpleRead: Into<Self> + Send + 'static;

    /// The bio of a simple read has ended well, and is gone: this completes the request. Any
    /// context, the hard interrupt included: this must not sleep (`iomap_dio_simple_end_io()`).
    fn done_simple_read(read: Self::SimpleRead, iocb: BusyIocb<()>);

    /// The last bio of the request has ended. Any context, the hard interrupt included: this must
    /// not sleep (`iomap_dio_done()`). Returns the request if a worker has to complete it.
    fn done(request: Unique<Self>) -> Option<Unique<Self>>;

    /// As [`Operations::done`], in a worker for ioends, which may sleep.
    fn done_at_ioend(request: Unique<Self>, ctx: MaySleep) -> Option<Unique<Self>>;

    /// Goes on with requests that were punted, at most [`Batch::MOST`], on the work queue
    /// (`iomap_dio_complete_work()`). It has to complete all of them.
    fn complete_work(batch: Batch<Self>, ctx: MaySleep);

    /// Whether one worker completes both. `next` may then have to wait for all that `request` waits
    /// for. They are of one inode, and none between them in the file is in the batch.
    fn goes_with(request: &Unique<Self>, next: &Unique<Self>) -> bool;
}

impl<T: Operations> Unique<T> {
    /// Lets [`Operations::complete_work`] go on with the request on the queue of the super block,
    /// or on the system's queue if there is none.
    ///
    /// Any context. The request no longer counts as one at the end of an ioend.
    #[doc(alias("queue_work", "llist_add"))]
    #[cold]
    pub(super) fn punt(self) {
        self.leave_ioend();
        let list = self.iocb().inode().dio_done_list();
        self.punt_to(list.cast());
    }

    /// As [`Self::punt`], for a request that no worker takes together with others.
    #[cold]
    pub(super) fn punt_alone(self) {
        self.punt_to(ptr::null_mut());
    }

    /// Puts the request on a list that a worker takes whole, unless that is NULL.
    #[inline(always)]
    fn punt_to(self, list: *mut Llist) {
        let head: *mut Head<T> = self.into_raw().cast();
        // SAFETY: The request is ours. Once it is on the list it may be gone, unless it leads: then
        // its work item takes it from there. The lists stay as long as the super block. Nothing
        // sleeps until the task may be preempted again.
        unsafe {
            // The others on a list wait for a leader that has not queued its work item.
            bindings::preempt_disable();
            let link = (&raw mut (*head).next).cast::<*mut Head<T>>();
            link.write(ptr::null_mut());
            if list.is_null() {
                Punted {
                    head,
                    run: complete_chain::<T>,
                }
                .enqueue();
            } else if (*list).add(head.cast(), |next| link.write(next.cast())) {
                let run = complete_list::<T>;
                Punted { head, run }.enqueue();
            }
            bindings::preempt_enable();
        }
    }
}

/// The work item of a request, which is about to be queued.
///
/// # Invariants
///
/// The request is there until the work item runs.
struct Punted<T: Operations> {
    head: *mut Head<T>,
    run: unsafe extern "C" fn(*mut bindings::work_struct),
}

impl<T: Operations> Punted<T> {
    /// Queues it on the queue of the super block, or on the system's queue if there is none.
    fn enqueue(self) {
        // SAFETY: By the invariants the request is there, and keeps the file open.
        let inode = unsafe { (*self.head).left.iocb.inode() };
        let queue = inode.dio_done_wq().unwrap_or(workqueue::system());
        queue.enqueue(self);
    }
}

// SAFETY: The request goes to a worker as it goes to the end of a bio.
unsafe impl<T: Operations> Send for Punted<T> {}

/// The name of the lock class of the work items.
///
/// Lockdep tells classes apart by the address of their name, of which a literal in a generic
/// function has one in each crate.
static WORK_NAME: &CStr = c"iomap_dio";

// SAFETY: The `work_struct` is part of the request, which stays as it is until the work function
// takes it back.
unsafe impl<T: Operations> RawWorkItem<0> for Punted<T> {
    type EnqueueOutput = ();

    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        // SAFETY: The request is there, and nobody else uses its work item. The lock class is
        // static.
        let work = unsafe {
            let work = (*self.head).work.get();
            bindings::init_work_with_key(
                work,
                Some(self.run),
                false,
                WORK_NAME.as_char_ptr(),
                static_lock_class!().as_ptr(),
            );
            work
        };
        // A work item that was initialised just now is not queued anywhere, so this succeeds.
        queue_work_on(work);
    }
}

/// Completes what is on the list that the request of `work` leads. Other inodes get a work item of
/// their own first.
///
/// # Safety
///
/// `work` must be that of a request that found the list empty. Process context.
#[doc(alias("work_func_t", "llist_del_all"))]
unsafe extern "C" fn complete_list<T: Operations>(work: *mut bindings::work_struct) {
    // SAFETY: The request is on the list, which nobody else takes. Each request there was added
    // with a link to the one before. A worker is in process context.
    let (mut batch, inode, ctx) = unsafe {
        let head = crate::container_of!(Opaque::cast_from(work), Head<T>, work);
        let left = &(*head).left;
        let inode = left.iocb.inode();
        let list: *const Llist = inode.dio_done_list().cast();
        // INVARIANT: They are ours from now on.
        let batch = Batch::<T>::new((*list).del_all().cast(), head);
        (batch, inode.as_raw(), MaySleep::assume())
    };
    // The leader is the last one. If it is the first one as well, it is alone.
    if !ptr::eq(batch.first, batch.running) {
        let mut others = batch.split_off(inode);
        while let Some(inode) = others.inode() {
            let next = others.split_off(inode);
            // None is left: the one whose work item runs is of our own.
            others.punt_others();
            others = next;
        }
        batch.punt_others();
    }
    T::complete_work(batch, ctx);
}

/// Completes the request of `work`, and those behind it.
///
/// # Safety
///
/// `work` must be that of a request that begins a chain of requests of its inode, which nobody else
/// has. Process context.
#[doc(alias = "work_func_t")]
unsafe extern "C" fn complete_chain<T: Operations>(work: *mut bindings::work_struct) {
    // SAFETY: Required of the caller. A worker is in process context.
    let (head, ctx) = unsafe {
        let head = crate::container_of!(Opaque::cast_from(work), Head<T>, work);
        (head.cast_mut(), MaySleep::assume())
    };
    // INVARIANT: Required of the caller.
    T::complete_work(Batch::new(head, head), ctx);
}
