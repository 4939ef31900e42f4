// SPDX-License-Identifier: GPL-2.0

//! The part of QEMU's plugin interface that this plugin uses, in version 7 (QEMU 11.0 and later).
//! QEMU refuses a plugin for a version that it does not support.
//!
//! Header: `include/plugins/qemu-plugin.h`. No crate has this version yet.

use std::ffi::c_int;
use std::ffi::c_uint;
use std::ffi::c_void;

pub const VERSION: c_int = 7;

/// `struct qemu_plugin_tb`: a block of instructions during its translation.
#[repr(C)]
pub struct Block {
    _private: [u8; 0],
}

/// `struct qemu_plugin_insn`: one of its instructions.
#[repr(C)]
pub struct Insn {
    _private: [u8; 0],
}

/// `struct qemu_plugin_scoreboard`: zeroed memory of the plugin for each processor.
#[repr(C)]
pub struct Scoreboard {
    _private: [u8; 0],
}

/// `qemu_plugin_u64`: a number in a scoreboard.
#[repr(C)]
pub struct Entry {
    pub score: *mut Scoreboard,
    /// In bytes from the start of the memory of a processor.
    pub offset: usize,
}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback reads no registers.
pub const NO_REGS: c_int = 0;

/// `QEMU_PLUGIN_INLINE_ADD_U64`: add a constant.
pub const ADD: c_int = 0;

pub type OnTranslate = unsafe extern "C" fn(block: *mut Block, data: *mut c_void);
pub type OnExecute = extern "C" fn(processor: c_uint, data: *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: OnTranslate, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Insn;

    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, size: usize) -> usize;
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        operation: c_int,
        entry: Entry,
        constant: u64,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: OnExecute,
        flags: c_int,
        data: *mut c_void,
    );

    pub fn qemu_plugin_scoreboard_new(size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(score: *mut Scoreboard, processor: c_uint) -> *mut c_void;
}
