package brokerscope.agent;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Makes two methods of a class call {@link Tap} before anything else (JVMS 4, the class file format):
 *
 * <pre>
 * int read(ByteBuffer buffer) {
 *     int moved = Tap.read(this, buffer);
 *     if (moved != Tap.RUN) return moved;
 *     ... as before
 * </pre>
 *
 * <p>The sixteen bytes in front move all of a method's code by the same distance, so none of its instructions changes:
 * jumps are relative, and the padding of switches depends on the distance modulo four.
 */
final class Patch {
    private static final Set<String> METHODS = Set.of("read", "write");
    private static final String DESCRIPTOR = "(Ljava/nio/ByteBuffer;)I";
    private static final String TAP_DESCRIPTOR = "(Ljava/lang/Object;Ljava/nio/ByteBuffer;)I";

    /** Length of the code in front, and the offset in it that continues with the original method. */
    private static final int SHIFT = 16;

    private static final int JOIN = 13;
    private static final int MIN_STACK = 3;

    private final DataInputStream in;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(bytes);
    /** The text constants, by their index. */
    private final List<String> texts = new ArrayList<>();

    private int patched;

    private Patch(byte[] original) {
        in = new DataInputStream(new ByteArrayInputStream(original));
    }

    static byte[] apply(byte[] original) throws IOException {
        Patch patch = new Patch(original);
        patch.run();
        if (patch.patched != METHODS.size()) {
            throw new IOException("it has " + patch.patched + " of the methods " + METHODS);
        }
        return patch.bytes.toByteArray();
    }

    private void run() throws IOException {
        out.writeLong(in.readLong());
        ByteArrayOutputStream pool = new ByteArrayOutputStream();
        int count = in.readUnsignedShort();
        readConstants(count, new DataOutputStream(pool));
        int added = addConstants(count, new DataOutputStream(pool));
        out.writeShort(count + added);
        pool.writeTo(out);
        // Access flags, this class, its superclass.
        copy(6);
        int interfaces = copyShort();
        copy(2 * interfaces);
        copyMembers(count, false);
        copyMembers(count, true);
        copyAttributes();
    }

    private void readConstants(int count, DataOutputStream to) throws IOException {
        texts.add(null);
        while (texts.size() < count) {
            int tag = in.readUnsignedByte();
            to.writeByte(tag);
            if (tag == 1) {
                String text = in.readUTF();
                to.writeUTF(text);
                texts.add(text);
                continue;
            }
            to.write(exactly(lengthOf(tag)));
            texts.add(null);
            if (tag == 5 || tag == 6) {
                // A long or a double takes two indexes.
                texts.add(null);
            }
        }
    }

    private static int lengthOf(int tag) throws IOException {
        switch (tag) {
            case 7: case 8: case 16: case 19: case 20:
                return 2;
            case 15:
                return 3;
            case 3: case 4: case 9: case 10: case 11: case 12: case 17: case 18:
                return 4;
            case 5: case 6:
                return 8;
            default:
                throw new IOException("a constant of the unknown kind " + tag);
        }
    }

    // Added constants, relative to `first`: the class, RUN, the attribute's name, and the reference of each method.
    private static final int CLASS = 1;
    private static final int RUN = 2;
    private static final int STACK_MAP_TABLE = 3;
    private static final int READ = 6;
    private static final int WRITE = 9;

    private static int addConstants(int first, DataOutputStream to) throws IOException {
        text(to, "brokerscope/agent/Tap");
        to.writeByte(7);
        to.writeShort(first);
        to.writeByte(3);
        to.writeInt(Tap.RUN);
        text(to, "StackMapTable");
        for (String name : List.of("read", "write")) {
            int at = first + ("read".equals(name) ? READ : WRITE);
            text(to, name);
            to.writeByte(12);
            to.writeShort(at - 2);
            to.writeShort(first + WRITE + 1);
            to.writeByte(10);
            to.writeShort(first + CLASS);
            to.writeShort(at - 1);
        }
        text(to, TAP_DESCRIPTOR);
        return WRITE + 2;
    }

    private static void text(DataOutputStream to, String text) throws IOException {
        to.writeByte(1);
        to.writeUTF(text);
    }

    private void copyMembers(int first, boolean areMethods) throws IOException {
        int members = copyShort();
        for (int member = 0; member < members; member++) {
            copy(2);
            String name = texts.get(copyShort());
            String descriptor = texts.get(copyShort());
            if (areMethods && METHODS.contains(name) && DESCRIPTOR.equals(descriptor)) {
                patchMethod(first, "read".equals(name) ? first + READ : first + WRITE);
            } else {
                copyAttributes();
            }
        }
    }

    private void copyAttributes() throws IOException {
        int attributes = copyShort();
        for (int attribute = 0; attribute < attributes; attribute++) {
            copy(2);
            int length = in.readInt();
            out.writeInt(length);
            copy(length);
        }
    }

    private void patchMethod(int first, int tap) throws IOException {
        int attributes = copyShort();
        for (int attribute = 0; attribute < attributes; attribute++) {
            String name = texts.get(copyShort());
            byte[] content = exactly(in.readInt());
            if ("Code".equals(name)) {
                content = new Code(texts, content).patched(first, tap);
                patched++;
            }
            out.writeInt(content.length);
            out.write(content);
        }
    }

    private int copyShort() throws IOException {
        int value = in.readUnsignedShort();
        out.writeShort(value);
        return value;
    }

    private void copy(int length) throws IOException {
        out.write(exactly(length));
    }

    private byte[] exactly(int length) throws IOException {
        byte[] content = in.readNBytes(length);
        if (content.length != length) {
            throw new IOException("it ends too early");
        }
        return content;
    }

    /** A method's code (JVMS 4.7.3) and the tables that refer to offsets in it. */
    private static final class Code {
        private final List<String> texts;
        private final DataInputStream in;
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final DataOutputStream out = new DataOutputStream(bytes);

        Code(List<String> texts, byte[] content) {
            this.texts = texts;
            in = new DataInputStream(new ByteArrayInputStream(content));
        }

        byte[] patched(int first, int tap) throws IOException {
            out.writeShort(Math.max(in.readUnsignedShort(), MIN_STACK));
            out.writeShort(in.readUnsignedShort());
            int length = in.readInt();
            out.writeInt(length + SHIFT);
            writeFront(first, tap);
            out.write(in.readNBytes(length));
            int handlers = in.readUnsignedShort();
            out.writeShort(handlers);
            for (int handler = 0; handler < handlers; handler++) {
                for (int place = 0; place < 3; place++) {
                    out.writeShort(in.readUnsignedShort() + SHIFT);
                }
                out.writeShort(in.readUnsignedShort());
            }
            copyAttributes(first);
            return bytes.toByteArray();
        }

        private void writeFront(int first, int tap) throws IOException {
            out.writeByte(0x2a); // aload_0
            out.writeByte(0x2b); // aload_1
            out.writeByte(0xb8); // invokestatic
            out.writeShort(tap);
            out.writeByte(0x59); // dup
            out.writeByte(0x13); // ldc_w
            out.writeShort(first + RUN);
            out.writeByte(0x9f); // if_icmpeq
            out.writeShort(JOIN - 9);
            out.writeByte(0xac); // ireturn
            out.writeByte(0x57); // pop
            out.writeShort(0); // nop, nop
        }

        private void copyAttributes(int first) throws IOException {
            int attributes = in.readUnsignedShort();
            ByteArrayOutputStream copied = new ByteArrayOutputStream();
            DataOutputStream to = new DataOutputStream(copied);
            boolean hasFrames = false;
            for (int attribute = 0; attribute < attributes; attribute++) {
                int nameAt = in.readUnsignedShort();
                String name = texts.get(nameAt);
                byte[] content = in.readNBytes(in.readInt());
                boolean isFrames = "StackMapTable".equals(name);
                hasFrames |= isFrames;
                write(to, nameAt, isFrames ? frames(content) : moved(name, content));
            }
            if (!hasFrames) {
                write(to, first + STACK_MAP_TABLE, frames(new byte[2]));
            }
            out.writeShort(hasFrames ? attributes : attributes + 1);
            copied.writeTo(out);
        }

        private static void write(DataOutputStream to, int name, byte[] content) throws IOException {
            to.writeShort(name);
            to.writeInt(content.length);
            to.write(content);
        }

        /** Shifts tables whose entries begin with an offset in the code. */
        private static byte[] moved(String name, byte[] content) throws IOException {
            int entry;
            if ("LineNumberTable".equals(name)) {
                entry = 4;
            } else if ("LocalVariableTable".equals(name) || "LocalVariableTypeTable".equals(name)) {
                entry = 10;
            } else {
                return content;
            }
            byte[] moved = content.clone();
            for (int at = 2; at + entry <= moved.length; at += entry) {
                int place = ((moved[at] & 0xff) << 8 | moved[at + 1] & 0xff) + SHIFT;
                moved[at] = (byte) (place >> 8);
                moved[at + 1] = (byte) place;
            }
            return moved;
        }

        /** Shifts the types at jump targets (JVMS 4.7.4), whose offsets are distances from the previous frame. */
        private static byte[] frames(byte[] content) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(content));
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            int frames = in.readUnsignedShort();
            out.writeShort(frames + 1);
            // The frame where the front continues with the method: as at the beginning, with an int on the stack.
            out.writeByte(64 + JOIN);
            out.writeByte(1);
            // The first original frame is farther from the added one than it was from the beginning, by this distance.
            int farther = SHIFT - JOIN - 1;
            for (int frame = 0; frame < frames; frame++) {
                copyFrame(in, out, farther);
                farther = 0;
            }
            return bytes.toByteArray();
        }

        private static void copyFrame(DataInputStream in, DataOutputStream out, int farther) throws IOException {
            int kind = in.readUnsignedByte();
            boolean isSame = kind < 64;
            boolean hasOneOnStack = kind >= 64 && kind < 128;
            if (isSame || hasOneOnStack) {
                int distance = (kind & 63) + farther;
                if (distance < 64) {
                    out.writeByte(isSame ? distance : 64 + distance);
                } else {
                    out.writeByte(isSame ? 251 : 247);
                    out.writeShort(distance);
                }
            } else if (kind >= 247) {
                out.writeByte(kind);
                out.writeShort(in.readUnsignedShort() + farther);
            } else {
                throw new IOException("a frame of the unknown kind " + kind);
            }
            if (hasOneOnStack || kind == 247) {
                copyTypes(in, out, 1);
            } else if (kind > 251 && kind < 255) {
                copyTypes(in, out, kind - 251);
            } else if (kind == 255) {
                for (int list = 0; list < 2; list++) {
                    int types = in.readUnsignedShort();
                    out.writeShort(types);
                    copyTypes(in, out, types);
                }
            }
        }

        private static void copyTypes(DataInputStream in, DataOutputStream out, int types) throws IOException {
            for (int type = 0; type < types; type++) {
                int kind = in.readUnsignedByte();
                out.writeByte(kind);
                if (kind == 7) {
                    out.writeShort(in.readUnsignedShort());
                } else if (kind == 8) {
                    // An uninitialised object that was created at this offset.
                    out.writeShort(in.readUnsignedShort() + SHIFT);
                }
            }
        }
    }
}
