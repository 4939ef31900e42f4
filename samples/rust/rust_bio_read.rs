// SPDX-License-Identifier: GPL-2.0

//! Rust sample of bios.
//!
//! Write the path of a block device and a number of bios to `/dev/rust-bio-read`. The module reads
//! the device, 4096 bytes at a time, with that many bios in flight, and checks that each sector of
//! 512 bytes begins with its own number, in 8 bytes, little endian. Then read the result from the
//! same open file:
//!
//! ```text
//! # exec 3<>/dev/rust-bio-read
//! # echo /dev/nullb0 16 >&3
//! # cat <&3
//! bios=16384 failed=0 wrong=0 iops=327680
//! ```
//!
//! `failed` counts bios that failed; `wrong` counts wrong sectors of the others.

use kernel::{
    block::{
        bdev::OpenBlockDevice,
        bio::{
            Bio,
            EndIo, //
        },
        buffer::Buffer,
        plug::plugged,
        SECTOR_SIZE, //
    },
    fs::{
        File,
        Kiocb, //
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
    sync::{
        Arc,
        Completion,
        Mutex,
        SetOnce, //
    },
    task::MaySleep,
    time::{
        Instant,
        Monotonic, //
    },
};

/// The size of a bio in bytes, a multiple of the logical block size of any device.
const BYTES: usize = 4096;

/// The size of a bio in sectors.
const SECTORS: usize = BYTES / SECTOR_SIZE as usize;

/// The largest write: a path (`PATH_MAX`) and a number.
const LINE_BYTES: usize = 4096 + 16;

/// The most bios in flight.
const MAX_DEPTH: usize = 1024;

/// The most bios for one line: 4 GiB.
const MAX_BIOS: u32 = 1 << 20;

module! {
    type: RustBioReadModule,
    name: "rust_bio_read",
    authors: ["Rust for Linux Contributors"],
    description: "Rust sample of bios",
    license: "GPL",
}

#[pin_data]
struct RustBioReadModule {
    #[pin]
    _miscdev: MiscDeviceRegistration<RustBioRead>,
}

impl kernel::InPlaceModule for RustBioReadModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let options = MiscDeviceOptions {
            name: c"rust-bio-read",
        };

        try_pin_init!(Self {
            _miscdev <- MiscDeviceRegistration::register(options),
        })
    }
}

/// The state of one open file.
#[pin_data]
struct RustBioRead {
    /// The text to read from the file, once a line was written to it.
    #[pin]
    report: Mutex<Option<CString>>,
}

#[vtable]
impl MiscDevice for RustBioRead {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(
            try_pin_init! {
                RustBioRead {
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
        let ctx = MaySleep::from_kiocb(&mut kiocb);
        let me = kiocb.file();

        let len = iov.len();
        if len > LINE_BYTES {
            return Err(E2BIG);
        }
        let mut line = KVec::new();
        if iov.copy_from_iter_vec(&mut line, GFP_KERNEL)? != len {
            return Err(EFAULT);
        }
        let (path, depth) = parse(&line)?;
        let bdev = OpenBlockDevice::open(&path, ctx)?;

        let report = read_all(&bdev, depth, ctx)?;
        *me.report.lock() = Some(report);

        // The next `read()` begins with the new report.
        *kiocb.ki_pos_mut() = 0;
        Ok(len)
    }
}

/// Splits a line into a path and a number of bios.
fn parse(line: &[u8]) -> Result<(CString, usize)> {
    let line = core::str::from_utf8(line).map_err(|_| EINVAL)?;
    let (path, depth) = line.trim_end().rsplit_once(' ').ok_or(EINVAL)?;
    let depth = depth.parse().map_err(|_| EINVAL)?;
    if !(1..=MAX_DEPTH).contains(&depth) {
        return Err(EINVAL);
    }
    Ok((CString::try_from_fmt(fmt!("{}", path.trim_end()))?, depth))
}

/// A bio in flight, as its submitter sees it.
#[pin_data]
struct Flight {
    /// The number of its first sector.
    sector: u64,
    /// The data, or the error. Empty until the bio has ended.
    outcome: SetOnce<Result<Buffer>>,
    #[pin]
    ended: Completion,
}

/// A bio in flight, as the bio sees it.
struct End(Arc<Flight>);

impl EndIo for End {
    fn end_io(self, buffer: Buffer, result: Result) {
        self.0.outcome.populate(result.map(|()| buffer));
        self.0.ended.complete_all();
    }
}

impl Flight {
    /// Submits a bio that reads at `sector`.
    fn start(bdev: &OpenBlockDevice, sector: u64, ctx: MaySleep) -> Result<Arc<Self>> {
        let flight = Arc::pin_init(
            pin_init!(Self {
                sector,
                outcome: SetOnce::new(),
                ended <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let buffer = Buffer::new(BYTES, GFP_KERNEL)?;
        Bio::read(bdev, sector, buffer, End(flight.clone()), ctx)?.submit(ctx);
        Ok(flight)
    }

    /// Waits for the bio, and checks its data.
    fn finish(&self, tally: &mut Tally) {
        self.ended.wait_for_completion();
        match self.outcome.as_ref() {
            Some(Ok(buffer)) => tally.wrong += wrong_sectors(buffer, self.sector),
            _ => tally.failed += 1,
        }
    }
}

/// The result of the checks.
#[derive(Default)]
struct Tally {
    failed: u32,
    wrong: u32,
}

/// Counts the sectors that do not begin with their number. `first` is the number of the first one.
fn wrong_sectors(buffer: &[u8], first: u64) -> u32 {
    let mut wrong = 0;
    for (sector, data) in (first..).zip(buffer.chunks(SECTOR_SIZE as usize)) {
        if !data.starts_with(&sector.to_le_bytes()) {
            wrong += 1;
        }
    }
    wrong
}

/// Reads a device with at most `depth` bios in flight, and returns the report.
fn read_all(bdev: &OpenBlockDevice, depth: usize, ctx: MaySleep) -> Result<CString> {
    let bios = bdev.sectors() / SECTORS as u64;
    let bios = bios.min(u64::from(MAX_BIOS)) as u32;
    let mut flights = KVec::with_capacity(depth, GFP_KERNEL)?;
    let mut tally = Tally::default();
    let began = Instant::<Monotonic>::now();

    // The first ones reach the driver together.
    let mut status: Result = plugged(|| {
        for bio in 0..bios.min(depth as u32) {
            let sector = u64::from(bio) * SECTORS as u64;
            flights.push(Flight::start(bdev, sector, ctx)?, GFP_KERNEL)?;
        }
        Ok(())
    });
    // Then, whenever the oldest one has ended, the next takes its place.
    let mut next = flights.len() as u32;
    while status.is_ok() && next < bios {
        let oldest = next as usize % depth;
        status = (|| {
            let slot = flights.get_mut(oldest).ok_or(EINVAL)?;
            slot.finish(&mut tally);
            *slot = Flight::start(bdev, u64::from(next) * SECTORS as u64, ctx)?;
            next += 1;
            Ok(())
        })();
    }
    // Whatever happened, the module stays until its bios have ended.
    for flight in &flights {
        flight.finish(&mut tally);
    }
    status?;

    let millis = began.elapsed().as_millis().max(1) as u32;
    let iops = bios * 1000 / millis;
    CString::try_from_fmt(fmt!(
        "bios={} failed={} wrong={} iops={}\n",
        bios,
        tally.failed,
        tally.wrong,
        iops
    ))
}
