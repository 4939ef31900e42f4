// SPDX-License-Identifier: GPL-2.0

//! Rust direct I/O sample.
//!
//! Write the path of a file to `/dev/rust-iomap-read`, and the module reads the first 4096 bytes
//! of it with direct I/O. Then read how many bytes that were, and their sum, from the same open
//! device:
//!
//! ```text
//! # exec 3<>/dev/rust-iomap-read
//! # echo /mnt/file >&3
//! # cat <&3
//! 4096 bytes, sum 522240
//! ```

use kernel::{
    fs::{
        File,
        Kiocb, //
    },
    iomap::{
        context::MaySleep,
        direct_file::{
            AlignedBuffer,
            DirectFile, //
        }, //
    },
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    new_mutex,
    prelude::*,
    str::CString,
    sync::Mutex, //
};

/// Bytes to read: a block of every device there is.
const BYTES: usize = 4096;

/// The longest path, with the NUL at its end (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

module! {
    type: RustIomapReadModule,
    name: "rust_iomap_read",
    authors: ["Rust for Linux Contributors"],
    description: "Rust direct I/O sample",
    license: "GPL",
}

#[pin_data]
struct RustIomapReadModule {
    #[pin]
    _miscdev: MiscDeviceRegistration<RustIomapRead>,
}

impl kernel::InPlaceModule for RustIomapReadModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let options = MiscDeviceOptions {
            name: c"rust-iomap-read",
        };

        try_pin_init!(Self {
            _miscdev <- MiscDeviceRegistration::register(options),
        })
    }
}

/// The device, as it was opened once.
#[pin_data]
struct RustIomapRead {
    /// What is to be read from the device, once a path was written to it.
    #[pin]
    report: Mutex<Option<CString>>,
}

#[vtable]
impl MiscDevice for RustIomapRead {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(
            try_pin_init! {
                RustIomapRead {
                    report <- new_mutex!(None::<CString>),
                }
            },
            GFP_KERNEL,
        )
    }

    fn read_iter(mut kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterDest<'_>) -> Result<usize> {
        let me = kiocb.file();
        let report = me.report.lock();
        let text: &[u8] = match &*report {
            Some(report) => report.to_bytes(),
            None => &[],
        };

        iov.simple_read_from_buffer(kiocb.ki_pos_mut(), text)
    }

    fn write_iter(mut kiocb: Kiocb<'_, Self::Ptr>, iov: &mut IovIterSource<'_>) -> Result<usize> {
        let ctx = MaySleep::from_kiocb(&kiocb);
        let me = kiocb.file();

        let len = iov.len();
        if len >= PATH_BYTES {
            return Err(ENAMETOOLONG);
        }
        let mut path = KVec::new();
        if iov.copy_from_iter_vec(&mut path, GFP_KERNEL)? != len {
            return Err(EFAULT);
        }
        // What `echo` adds.
        if path.last() == Some(&b'\n') {
            path.pop();
        }
        path.push(0, GFP_KERNEL)?;
        let path = CStr::from_bytes_with_nul(&path).map_err(|_| EINVAL)?;

        let report = read_and_sum(path, ctx)?;
        *me.report.lock() = Some(report);

        // The next `read()` begins with the new report.
        *kiocb.ki_pos_mut() = 0;
        Ok(len)
    }
}

/// Reads the first bytes of the file at `path`, and says how many there were, and their sum.
fn read_and_sum(path: &CStr, ctx: MaySleep) -> Result<CString> {
    let file = DirectFile::open(path, ctx)?;
    let mut buffer = AlignedBuffer::new(BYTES, ctx)?;
    let count = file.read(0, &mut buffer, ctx)?;

    let sum = buffer
        .iter()
        .take(count)
        // OVERFLOW: The sum of `BYTES` bytes is less than 2^20.
        .fold(0u32, |sum, &byte| sum.wrapping_add(u32::from(byte)));
    CString::try_from_fmt(fmt!("{} bytes, sum {}\n", count, sum))
}
