#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs in the toolchain root: makes a disk with UEFI firmware in mind of the Debian in $1/tree. It needs no loop
# device. GRUB is as small as it can be: the first boot installs that of Debian.
set -euo pipefail
cd "$1"
root=6f6d6170-6469-4f2d-9275-737400000001
kernel=$(cd tree/boot && echo vmlinuz-*)

echo debian >tree/etc/hostname
echo 127.0.0.1 localhost debian >tree/etc/hosts
printf 'UUID=%s / ext4 defaults 0 1\nLABEL=ESP /boot/efi vfat defaults 0 1\n' "$root" >tree/etc/fstab
mkdir -p tree/boot/efi tree/boot/grub tree/etc/systemd/system/serial-getty@ttyS0.service.d
passwd --root "$PWD/tree" --delete root
# The shell of the test
printf '[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200 %%I dumb\n' \
	>tree/etc/systemd/system/serial-getty@ttyS0.service.d/autologin.conf
# What Debian's installer writes for a machine with a serial console
printf 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=1\nGRUB_DISTRIBUTOR=Debian\n%s\n%s\n' \
	'GRUB_CMDLINE_LINUX_DEFAULT="quiet"' 'GRUB_CMDLINE_LINUX="console=ttyS0"' >tree/etc/default/grub
cat >tree/boot/grub/grub.cfg <<END
linux /boot/$kernel root=UUID=$root ro console=ttyS0
initrd /boot/initrd.img-${kernel#vmlinuz-}
boot
END
printf 'insmod part_gpt\ninsmod ext2\nsearch --no-floppy --fs-uuid --set=root %s\nconfigfile ($root)/boot/grub/grub.cfg\n' "$root" >tree/tmp/early.cfg
chroot tree grub-mkstandalone -O x86_64-efi -o /tmp/BOOTX64.EFI boot/grub/grub.cfg=/tmp/early.cfg

truncate -s 5G disk
printf 'label: gpt\nsize=128MiB, type=uefi\ntype=linux\n' | sfdisk -q disk
mkfs.vfat -F 32 -s 1 -n ESP --offset=2048 disk $((128 * 1024)) >/dev/null
mmd -i disk@@1M ::/EFI ::/EFI/BOOT
mcopy -i disk@@1M tree/tmp/BOOTX64.EFI ::/EFI/BOOT/
rm tree/tmp/*
mke2fs -q -t ext4 -U "$root" -d tree -E offset=$((129 * 1024 * 1024)) disk $(((5 * 1024 - 130) * 1024))k
# For who looks whether KVM works
install -D "tree/boot/$kernel" kernel/arch/x86/boot/bzImage
rm -rf tree
