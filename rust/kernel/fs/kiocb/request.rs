// SPDX-License-Identifier: GPL-2.0

//! What an implementation of direct I/O asks of a kiocb.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/pagemap.h`](srctree/include/linux/pagemap.h).

use super::Kiocb;
use crate::{
    bindings,
    error::to_result,
    fs::inode::Inode,
    page::PAGE_SHIFT,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::MaySleep,
    types::ForeignOwnable, //
};

crate::flag_word! {
    /// Flags of a kiocb (`ki_flags`).
    ///
    /// The caller of the request sets them. Direct I/O changes only [`IocbFlags::HIPRI`], which it
    /// clears when nobody can poll for the request.
    pub struct IocbFlags(i32) {
        /// The caller polls for the completion.
        #[doc(alias = "IOCB_HIPRI")]
        HIPRI = bindings::IOCB_HIPRI,
        /// The data has to be stable when the write completes (`O_DSYNC`).
        #[doc(alias = "IOCB_DSYNC")]
        DSYNC = bindings::IOCB_DSYNC,
        /// The data and all metadata have to be stable when the write completes (`O_SYNC`).
        #[doc(alias = "IOCB_SYNC")]
        SYNC = bindings::IOCB_SYNC,
        /// Fail with `EAGAIN` instead of blocking.
        #[doc(alias = "IOCB_NOWAIT")]
        NOWAIT = bindings::IOCB_NOWAIT,
        /// The write must not be torn (`RWF_ATOMIC`).
        #[doc(alias = "IOCB_ATOMIC")]
        ATOMIC = bindings::IOCB_ATOMIC,
    }
}

/// Methods without a [`MaySleep`] argument work in any context.
impl<T: ForeignOwnable> Kiocb<'_, T> {
    /// The most pages of a range that [`Kiocb::has_cached_pages`] looks at.
    const MAX_LOOKED_AT: i64 = 16;

    /// The flags (`ki_flags`), as they are now: polling may be switched off on the way.
    #[inline]
    pub fn flags(&self) -> IocbFlags {
        // SAFETY: The kiocb is valid by the invariants.
        IocbFlags(unsafe { (*self.as_raw()).ki_flags })
    }

    /// Takes the request out of polling: the caller sees [`IocbFlags::HIPRI`] cleared.
    #[inline]
    pub fn stop_polling(&self) {
        // SAFETY: As above. Only who serves the request writes to the flags, from one thread at a
        // time: a kiocb is not `Sync`.
        unsafe { (*self.as_raw()).ki_flags &= !IocbFlags::HIPRI.into_raw() };
    }

    /// Whether the caller waits for the result itself (`is_sync_kiocb()`).
    ///
    /// Otherwise `ki_complete()` may be called for the request, in any context.
    #[inline]
    pub fn is_sync(&self) -> bool {
        // SAFETY: As above.
        unsafe { (*self.as_raw()).ki_complete.is_none() }
    }

    /// Whether the data must be stable when the write completes (`iocb_is_dsync()`): the kiocb or
    /// the inode says so.
    #[inline]
    pub fn is_dsync(&self) -> bool {
        // SAFETY: The kiocb and its file are valid by the invariants.
        unsafe { bindings::iocb_is_dsync(self.as_raw()) }
    }

    /// The I/O priority of the request (`ki_ioprio`).
    #[inline]
    pub(crate) fn ioprio(&self) -> u16 {
        // SAFETY: As above.
        unsafe { (*self.as_raw()).ki_ioprio }
    }

    /// The inode of the file (`file_inode()`).
    #[inline]
    pub fn inode(&self) -> &Inode {
        // SAFETY: The open file of a valid kiocb pins its inode.
        unsafe { Inode::from_raw((*(*self.as_raw()).ki_filp).f_inode) }
    }

    /// The number of pages in the page cache of the file (`nrpages`), and its flags.
    #[inline(always)]
    fn page_cache(&self) -> (&Atomic<c_ulong>, &Atomic<c_ulong>) {
        // SAFETY: The file is open, so its mapping is valid; both are machine words.
        unsafe {
            let mapping = (*(*self.as_raw()).ki_filp).f_mapping;
            let (pages, flags) = (&raw mut (*mapping).nrpages, &raw mut (*mapping).flags);
            (Atomic::from_ptr(pages), Atomic::from_ptr(flags))
        }
    }

    /// Whether the page cache has a page of the next `len` bytes (`filemap_range_has_page()`).
    ///
    /// The answer for a range of more than 16 pages is whether the file has any page: an interrupt
    /// must not look for long. A snapshot: pages may come and go at once.
    #[doc(alias("filemap_range_has_page", "nrpages"))]
    #[inline]
    pub fn has_cached_pages(&self, len: usize) -> bool {
        // By value: for a reference each request would write this to the stack.
        // INVARIANT: As `self`.
        let this = Self { ..*self };
        self.has_any_cached_page() && this.has_page_among(len)
    }

    /// Whether the file has any page in the page cache (`nrpages`).
    #[inline(always)]
    pub fn has_any_cached_page(&self) -> bool {
        self.page_cache().0.load(Relaxed) != 0
    }

    /// As [`Kiocb::has_cached_pages`], of a file with cached pages.
    #[cold]
    fn has_page_among(self, len: usize) -> bool {
        // SAFETY: The kiocb and the mapping of its file are valid.
        unsafe {
            let mapping = (*(*self.as_raw()).ki_filp).f_mapping;
            let pos = (*self.as_raw()).ki_pos;
            // CAST: The end of a request is a position.
            let last = pos.wrapping_add(len as i64).wrapping_sub(1);
            (last >> PAGE_SHIFT).wrapping_sub(pos >> PAGE_SHIFT) >= Self::MAX_LOOKED_AT
                || bindings::filemap_range_has_page(mapping, pos, last)
        }
    }

    /// Whether writeback of the file has failed, and nobody was told yet.
    #[inline(always)]
    fn has_writeback_error(&self) -> bool {
        const ERRORS: c_ulong =
            1 << bindings::mapping_flags_AS_EIO | 1 << bindings::mapping_flags_AS_ENOSPC;
        self.page_cache().1.load(Relaxed) & ERRORS != 0
    }

    /// Writes back dirty pages of the next `len` bytes and waits for them
    /// (`kiocb_write_and_wait()`), so that a read from the device finds current data.
    ///
    /// Fails with `EAGAIN` if that would block a `NOWAIT` request, or with the error of the
    /// writeback.
    #[inline]
    pub fn write_and_wait(&self, len: usize, _ctx: MaySleep) -> Result {
        if !self.has_any_cached_page() && !self.has_writeback_error() {
            return Ok(());
        }
        // SAFETY: The kiocb is valid, and the context may sleep.
        to_result(unsafe { bindings::kiocb_write_and_wait(self.as_raw(), len) })
    }

    /// Writes back and then drops the cached pages of the next `len` bytes
    /// (`kiocb_invalidate_pages()`), so that nobody reads old data from the cache after a write to
    /// the device.
    ///
    /// Fails with `EAGAIN` if that would block a `NOWAIT` request, or with the error that kept a
    /// page from being dropped.
    #[inline]
    pub fn invalidate_pages(&self, len: usize, _ctx: MaySleep) -> Result {
        if !self.has_cached_pages(len) && !self.has_writeback_error() {
            return Ok(());
        }
        // SAFETY: The kiocb is valid, and the context may sleep.
        to_result(unsafe { bindings::kiocb_invalidate_pages(self.as_raw(), len) })
    }
}
