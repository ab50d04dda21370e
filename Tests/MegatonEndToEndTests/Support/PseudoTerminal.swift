import Foundation
import Synchronization

/// A pseudo-terminal, read while a program writes to it.
final class PseudoTerminal: Sendable {
    struct CannotOpen: Error {}

    let path: String
    private let master: Int32
    private let received = Mutex("")

    init(rows: UInt16 = 24, columns: UInt16) throws {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        var (lock, number): (Int32, Int32) = (0, 0)
        // Does the same as unlockpt(3) and ptsname(3): TIOCSPTLCK and TIOCGPTN.
        guard master >= 0, ioctl(master, 0x4004_5431, &lock) == 0, ioctl(master, 0x8004_5430, &number) == 0 else {
            throw CannotOpen()
        }
        self.master = master
        path = "/dev/pts/\(number)"
        resize(rows: rows, columns: columns)
    }

    deinit { close(master) }

    func resize(rows: UInt16 = 24, columns: UInt16) {
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    /// Types a text, without a line break.
    func type(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(master, bytes, bytes.count)
    }

    /// All output so far.
    var text: String { received.withLock { $0 } }

    /// Reads until the output since the call satisfies the condition, or the program has closed its side.
    @discardableResult func read(until isEnough: @Sendable (String) -> Bool) -> String {
        var (new, bytes) = ("", [UInt8](repeating: 0, count: 4096))
        while !isEnough(new) {
            var look = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            guard poll(&look, 1, 20_000) > 0 else { break }
            let count = Foundation.read(master, &bytes, bytes.count)
            if count <= 0 { break }
            new += String(decoding: bytes.prefix(count), as: UTF8.self)
        }
        let added = new
        received.withLock { $0 += added }
        return new
    }
}
