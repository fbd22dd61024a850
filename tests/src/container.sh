# What a container runtime does before it runs a program: its own root, an overlay over the host's, a volume bound
# into it, and only then the program. Runs as the first process of new pid, mount and network namespaces:
#
#   container.sh LAYERS VOLUME PLACE HOST-DIRECTORY... -- PROGRAM ARGUMENT...
#
# LAYERS is where the overlay's own files go, on any file system but the root's; the directory VOLUME is seen as PLACE; the
# host's directories are seen where they are, no matter what is mounted there.
set -eu
layers=$1 volume=$2 place=$3
shift 3
root=$layers/merged
mkdir -p "$layers/upper" "$layers/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" overlay "$root"
while [ "$1" != -- ]; do
	mkdir -p "$root$1"
	mount --bind "$1" "$root$1"
	shift
done
shift
mkdir -p "$root$place"
mount --bind "$volume" "$root$place"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
cd "$root"
# The old root on top of the new one, and then away with it (pivot_root(2), NOTES).
pivot_root . .
umount -l .
cd /
ip link set lo up
exec "$@"
