// SPDX-License-Identifier: GPL-2.0

//! Counts the instructions that a guest with one processor executes, per kernel function.
//!
//! Arguments, after `-plugin FILE` on the command line of QEMU:
//!
//! - `map=PATH`: the `System.map` of the guest's kernel.
//! - `out=PATH`: the file to write.
//!
//! Each time the guest executes [`MARK`] in user space, the plugin writes the counts since the last
//! mark and resets them. It writes a line `mark NUMBER USER TIMER`, and then a line
//! `ADDRESS INSTRUCTIONS CALLS` for each function that was executed.
//!
//! - `USER` is the number of instructions in user space.
//! - `TIMER` is the number of instructions in timer interrupts. This includes soft interrupts after
//!   them, until a soft interrupt ends I/O. The clock causes these instructions and not the load,
//!   so they are not in the count of any function.
//! - `CALLS` is how often the first instruction of the function was executed.
//!
//! An instruction with a repeat prefix (`rep movsb`) counts once. A guest processor without ERMS
//! and FSRM does not use it to copy.

mod qemu;

use std::collections::HashMap;
use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_uint;
use std::ffi::c_void;
use std::ffi::CStr;
use std::fs;
use std::io::BufWriter;
use std::io::Write;
use std::sync::Mutex;
use std::sync::OnceLock;

/// `nopl 0x10c0d1(%rax,%rax)`, an instruction without effect that no compiler emits.
const MARK: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0xd1, 0xc0, 0x10, 0x00];

/// The boundary between user space, below, and the kernel.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// The first function of a timer interrupt.
const TIMER_BEGIN: &str = "asm_sysvec_apic_timer_interrupt";

/// The functions that end the count of a timer interrupt: its return, and the end of I/O.
const TIMER_END: [&str; 2] = ["irqentry_exit", "blk_done_softirq"];

/// The counters, in memory of QEMU: index 0 is user space, index 1 is kernel code in no function,
/// then one for each function. The calls follow in the same order.
struct Counters {
    score: *mut qemu::Scoreboard,
    /// The start addresses of all functions, ascending.
    starts: Vec<u64>,
    timer_begin: u64,
    timer_end: [u64; 2],
    progress: Mutex<Progress>,
}

/// The state that changes at a mark and at a timer interrupt.
struct Progress {
    out: BufWriter<fs::File>,
    mark: u64,
    timer: u64,
    /// The counters at the start of the current timer interrupt.
    interrupted: Option<Vec<u64>>,
}

// SAFETY: Any thread may call QEMU's functions on a scoreboard; the other fields are constant or in
// a mutex.
unsafe impl Send for Counters {}
// SAFETY: As above.
unsafe impl Sync for Counters {}

static COUNTERS: OnceLock<Counters> = OnceLock::new();

/// QEMU checks this symbol before it loads the plugin.
#[no_mangle]
pub static qemu_plugin_version: c_int = qemu::VERSION;

impl Counters {
    fn len(&self) -> usize {
        2 * (self.starts.len() + 2)
    }

    fn entry(&self, index: usize) -> qemu::Entry {
        qemu::Entry {
            score: self.score,
            offset: index * size_of::<u64>(),
        }
    }

    /// The counters as a slice.
    ///
    /// # Safety
    ///
    /// The caller must be a callback of the only processor, so that no instruction is counted
    /// meanwhile, and must not use an earlier slice any more.
    unsafe fn counts(&self) -> &mut [u64] {
        // SAFETY: QEMU's memory for processor 0 has the size that `install()` requested, and is
        // zeroed. By the safety requirement there is no other reference.
        unsafe {
            let first = qemu::qemu_plugin_scoreboard_find(self.score, 0).cast::<u64>();
            std::slice::from_raw_parts_mut(first, self.len())
        }
    }

    /// The index of the counter for an address.
    fn index(&self, address: u64) -> usize {
        if address < KERNEL {
            0
        } else {
            1 + self.starts.partition_point(|start| *start <= address)
        }
    }

    /// Writes the counts since the last mark, and resets them.
    fn mark(&self, progress: &mut Progress) -> std::io::Result<()> {
        // SAFETY: `on_mark()` is a callback.
        let counts = unsafe { self.counts() };
        let calls = self.starts.len() + 2;
        let out = &mut progress.out;

        writeln!(
            out,
            "mark {} {} {}",
            progress.mark, counts[0], progress.timer
        )?;
        for index in 1..calls {
            if counts[index] != 0 {
                let address = if index == 1 {
                    0
                } else {
                    self.starts[index - 2]
                };
                writeln!(
                    out,
                    "{address:x} {} {}",
                    counts[index],
                    counts[calls + index]
                )?;
            }
        }
        out.flush()?;
        counts.fill(0);
        progress.mark += 1;
        progress.timer = 0;
        Ok(())
    }
}

fn counters() -> &'static Counters {
    COUNTERS
        .get()
        .expect("callbacks come after qemu_plugin_install()")
}

extern "C" fn on_mark(_vcpu: c_uint, _: *mut c_void) {
    let mut progress = counters().progress.lock().unwrap();

    if let Err(error) = counters().mark(&mut progress) {
        eprintln!("iomap-count: the counts cannot be written: {error}");
        std::process::exit(1);
    }
}

extern "C" fn on_timer_begin(_vcpu: c_uint, _: *mut c_void) {
    let mut progress = counters().progress.lock().unwrap();

    // Another timer interrupt may interrupt the soft interrupts.
    progress.interrupted.get_or_insert_with(|| {
        // SAFETY: This is a callback.
        unsafe { counters().counts() }.to_vec()
    });
}

extern "C" fn on_timer_end(_vcpu: c_uint, _: *mut c_void) {
    let mut progress = counters().progress.lock().unwrap();

    // Other interrupts also come here.
    if let Some(before) = progress.interrupted.take() {
        // SAFETY: This is a callback.
        let counts = unsafe { counters().counts() };
        let calls = counts.len() / 2;

        progress.timer += counts[..calls].iter().sum::<u64>() - before[..calls].iter().sum::<u64>();
        counts.copy_from_slice(&before);
    }
}

/// Adds code to each instruction of a block that counts it.
unsafe extern "C" fn on_translate(block: *mut qemu::Block, _: *mut c_void) {
    let counters = counters();
    let calls = counters.starts.len() + 2;

    // SAFETY: The block and its instructions are valid during this callback; all entries are within
    // the scoreboard; the plugin with its callbacks is never unloaded.
    unsafe {
        for n in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let insn = qemu::qemu_plugin_tb_get_insn(block, n);
            let address = qemu::qemu_plugin_insn_vaddr(insn);
            let index = counters.index(address);
            let add = |index| {
                qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    insn,
                    qemu::ADD,
                    counters.entry(index),
                    1,
                );
            };
            let call = |callback| {
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                    insn,
                    callback,
                    qemu::NO_REGS,
                    std::ptr::null_mut(),
                );
            };

            if address == counters.timer_begin {
                call(on_timer_begin);
            } else if counters.timer_end.contains(&address) {
                call(on_timer_end);
            }
            add(index);
            if index > 1 && address == counters.starts[index - 2] {
                add(calls + index);
            }
            if index == 0 && qemu::qemu_plugin_insn_size(insn) == MARK.len() {
                let mut bytes = [0; MARK.len()];

                qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len());
                if bytes == MARK {
                    call(on_mark);
                }
            }
        }
    }
}

/// The value of the argument `name=`.
fn argument<'a>(args: &[&'a str], name: &str) -> Result<&'a str, String> {
    args.iter()
        .find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| format!("{name}=PATH is missing"))
}

fn install(args: &[&str]) -> Result<Counters, String> {
    let path = argument(args, "map")?;
    let map = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let mut starts = Vec::new();
    let mut named = HashMap::new();

    for line in map.lines() {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let address =
            u64::from_str_radix(address, 16).map_err(|_| format!("{path}: no System.map"))?;

        if address >= KERNEL && matches!(kind, "t" | "T" | "w" | "W") {
            starts.push(address);
            named.insert(name, address);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let find = |name| {
        named
            .get(name)
            .copied()
            .ok_or_else(|| format!("{path} has no {name}"))
    };
    let timer_begin = find(TIMER_BEGIN)?;
    let timer_end = [find(TIMER_END[0])?, find(TIMER_END[1])?];

    let path = argument(args, "out")?;
    let out = fs::File::create(path).map_err(|error| format!("{path}: {error}"))?;
    let size = 2 * (starts.len() + 2) * size_of::<u64>();

    Ok(Counters {
        // SAFETY: QEMU has called `qemu_plugin_install()`.
        score: unsafe { qemu::qemu_plugin_scoreboard_new(size) },
        starts,
        timer_begin,
        timer_end,
        progress: Mutex::new(Progress {
            out: BufWriter::new(out),
            mark: 0,
            timer: 0,
            interrupted: None,
        }),
    })
}

/// QEMU calls this after it has loaded the plugin.
///
/// # Safety
///
/// `argv` points to `argc` strings.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let args: Vec<&str> = (0..argc as usize)
        // SAFETY: By the safety requirement.
        .map(|n| {
            unsafe { CStr::from_ptr(*argv.add(n)) }
                .to_str()
                .unwrap_or("")
        })
        .collect();

    match install(&args) {
        Ok(counters) => {
            // QEMU installs a plugin once.
            let _ = COUNTERS.set(counters);
            // SAFETY: The callback has the expected type, and is never unloaded.
            unsafe {
                qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, std::ptr::null_mut())
            };
            0
        }
        Err(error) => {
            eprintln!("iomap-count: {error}");
            1
        }
    }
}
