/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where files are. A path is sent once and remembered by user space, because it is longer than everything
 * else about an operation: again after any rename by the target, which may have moved the file or a directory
 * above it, and again after a second, for renames by others. An operation says which path it builds on, so
 * that one whose path was lost is reported without a name, not with an old one.
 */

/* How long a path holds without being looked at again. */
#define PATH_FRESH_NS 1000000000ULL

struct known_path {
	__u64 path_ns;
	/* `renames` before the path was read */
	__u32 renames;
	__u32 reserved;
};

/* The files in use. One that is pushed out is sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct file_key);
	__type(value, struct known_path);
} known_paths SEC(".maps");

/* Renames by the target that succeeded. */
__u32 renames;

/* The names from the file up to its file system's root. Returns their bytes. */
static __always_inline __u64 read_names(struct file_path_event *event, struct dentry *dentry)
{
	__u64 length = 0;

	event->whole = 0;
#pragma unroll
	for (int i = 0; i < PATH_COMPONENTS; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
		long bytes;

		if (parent == dentry) {
			event->whole = 1;
			break;
		}
		bytes = bpf_probe_read_kernel_str(event->path + length, NAME_BYTES, name);
		if (bytes <= 0 || bytes > NAME_BYTES)
			break;
		/* 1 to NAME_BYTES, said so that the verifier of 6.1 sees it in whichever copy the compiler uses */
		barrier_var(bytes);
		length += ((bytes - 1) & (NAME_BYTES - 1)) + 1;
		dentry = parent;
	}
	return length;
}

/* False where there was no room for it. */
static __always_inline bool send_path(struct dentry *dentry, struct file_key *file, __u64 now)
{
	union scratch *room = scratch();
	struct file_path_event *event;
	__u64 bytes;

	if (!room)
		return false;
	event = &room->file_path;
	event->kind = EVENT_FILE_PATH;
	event->reserved = 0;
	event->file = *file;
	event->path_ns = now;
	__builtin_memset(event->fs, 0, sizeof(event->fs));
	bpf_probe_read_kernel_str(event->fs, sizeof(event->fs),
				  BPF_CORE_READ(dentry, d_inode, i_sb, s_type, name));
	bytes = read_names(event, dentry);
	event->path_len = bytes;
	/* bounded right before it is used: see off_cpu.h */
	barrier_var(bytes);
	if (bytes > PATH_BYTES)
		return false;
	return emit(event, __builtin_offsetof(struct file_path_event, path) + bytes);
}

/*
 * Sees to it that user space knows where the file is. Returns when what it knows was read, 0 if it does not
 * know. Uses the scratch room. The inode check holds off a dentry that another thread's close let go of.
 */
static __always_inline __u64 path_of(struct dentry *dentry, struct file_key *file, __u64 now)
{
	struct known_path *known = bpf_map_lookup_elem(&known_paths, file);
	struct known_path fresh = { now, renames, 0 };

	if (known && known->renames == fresh.renames && now - known->path_ns < PATH_FRESH_NS)
		return known->path_ns;
	if (BPF_CORE_READ(dentry, d_inode, i_ino) != file->inode)
		return 0;
	if (!send_path(dentry, file, now))
		return 0;
	if (known) {
		known->path_ns = fresh.path_ns;
		known->renames = fresh.renames;
	} else {
		bpf_map_update_elem(&known_paths, file, &fresh, BPF_ANY);
	}
	return now;
}

static __always_inline void identify(struct file_key *file, struct inode *found)
{
	struct inode *inode = TYPED(struct inode, found);
	struct super_block *super = DIRECT(inode, i_sb);

	file->inode = DIRECT(inode, i_ino);
	file->generation = DIRECT(inode, i_generation);
	file->device = DIRECT(super, s_dev);
}
