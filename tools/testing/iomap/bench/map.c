// SPDX-License-Identifier: GPL-2.0
/* The functions of the kernel in a guest, and the arguments of a plugin. */

#include <stdarg.h>

#include "plugin.h"

int qemu_plugin_version = 7;
uint64_t *starts;
size_t nr = 2;

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("iomap plugin: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	exit(1);
}

const char *argument(int argc, char **argv, const char *name)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], name, strlen(name)))
			return argv[i] + strlen(name);
	return NULL;
}

FILE *open_argument(int argc, char **argv, const char *name, const char *mode)
{
	const char *path = argument(argc, argv, name);
	FILE *file = path ? fopen(path, mode) : NULL;

	if (!path)
		fail("%sPATH is missing", name);
	if (!file)
		fail("%s: %m", path);
	return file;
}

bool is_mark(const struct insn *insn)
{
	/* nopl 0x10c0d1(%rax,%rax) */
	static const unsigned char mark[] = { 0x0f, 0x1f, 0x84, 0x00, 0xd1, 0xc0, 0x10, 0x00 };
	unsigned char bytes[sizeof(mark)];

	return qemu_plugin_insn_vaddr(insn) < KERNEL &&
	       qemu_plugin_insn_size(insn) == sizeof(mark) &&
	       qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) == sizeof(mark) &&
	       !memcmp(bytes, mark, sizeof(mark));
}

size_t index_of(uint64_t address)
{
	size_t low = 1, high = nr;

	if (address < KERNEL)
		return 0;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (starts[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void read_map(int argc, char **argv)
{
	FILE *map = open_argument(argc, argv, "map=", "r");
	uint64_t address;
	char kind, name[1024];

	starts = calloc(2, sizeof(*starts));
	/* It is in the order of addresses. */
	while (fscanf(map, "%" SCNx64 " %c %1023s", &address, &kind, name) == 3) {
		if (address < KERNEL || !strchr("tTwW", kind))
			continue;
		symbol(name, address);
		if (address == starts[nr - 1])
			continue;
		starts = realloc(starts, (nr + 1) * sizeof(*starts));
		starts[nr++] = address;
	}
	fclose(map);
}
