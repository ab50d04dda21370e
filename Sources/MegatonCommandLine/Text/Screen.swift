import Foundation
import Synchronization

/// The alternate screen of the terminal on standard output. Its former content comes back at the end.
package final class Screen: Sendable {
    private struct State {
        var isShown = true
        /// The settings of the keyboard from before; nil if standard input is no terminal.
        let settings: termios?
    }

    private let state: Mutex<State>

    /// Milliseconds after which the thread of ``readKeys(_:)`` looks whether the screen has ended.
    private static let keyInterval: Int32 = 200
    private static let entering = "\u{1B}[?1049h\u{1B}[?25l"
    private static let leaving = "\u{1B}[?25h\u{1B}[?1049l"

    /// Whether standard output is a terminal on which a text can be replaced.
    package static var isAvailable: Bool {
        isatty(STDOUT_FILENO) == 1 && ProcessInfo.processInfo.environment["TERM"] != "dumb"
    }

    /// The current size of the window; 24 rows of 80 columns if it is unknown.
    package static var size: (rows: Int, columns: Int) {
        var size = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_row > 0 && size.ws_col > 0
        return isKnown ? (Int(size.ws_row), Int(size.ws_col)) : (24, 80)
    }

    /// Begins to show the screen, and typed keys no longer.
    package init() {
        state = Mutex(State(settings: Self.silenceKeyboard()))
        _ = Terminal.write(Self.entering, to: STDOUT_FILENO)
    }

    /// Lets each key be read at once and unseen. Ctrl-Z and Ctrl-\ are keys like others, as the shell would get the
    /// screen, and so are Ctrl-S and Ctrl-Q, as output would wait for the second of them. Ctrl-C stays a signal.
    ///
    /// - Returns: the settings from before.
    private static func silenceKeyboard() -> termios? {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return nil }
        let former = settings
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        settings.c_iflag &= ~tcflag_t(IXON)
        // A line break begins a line, whatever another program has left.
        settings.c_oflag |= tcflag_t(OPOST | ONLCR)
        withUnsafeMutableBytes(of: &settings.c_cc) { ($0[Int(VSUSP)], $0[Int(VQUIT)]) = (0, 0) }
        return tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0 ? former : nil
    }

    /// Replaces the text, unless the screen has ended. Lines are cut to the window, and control characters in them are
    /// escaped.
    ///
    /// - Returns: false if the terminal cannot be written: it is gone.
    package func show(_ lines: [String]) -> Bool {
        let (rows, columns) = Self.size
        // The last column stays free: some terminals begin a new line when it is filled.
        let fitted = lines.prefix(rows).map { TextColumns.fitted(TextColumns.oneLine($0), columns - 1) + "\u{1B}[K" }
        let text = "\u{1B}[H" + fitted.joined(separator: "\n") + "\u{1B}[J"
        // Locked during the write, so that nothing is written after the end.
        return state.withLock { !$0.isShown || Terminal.write(text, to: STDOUT_FILENO) == 0 }
    }

    /// Calls the body with each byte of typed keys until the screen ends, on a thread of its own.
    package func readKeys(_ body: @escaping @Sendable (UInt8) -> Void) {
        guard isatty(STDIN_FILENO) == 1 else { return }
        let thread = Thread { [self] in
            while state.withLock({ $0.isShown }) {
                var request = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                guard poll(&request, 1, Self.keyInterval) > 0, state.withLock({ $0.isShown }) else { continue }
                var byte: UInt8 = 0
                // The end of the terminal, which also sends a signal.
                guard read(STDIN_FILENO, &byte, 1) == 1 else { return }
                body(byte)
            }
        }
        thread.start()
    }

    /// Ends the screen; more calls have no effect.
    package func end() {
        state.withLock { state in
            guard state.isShown else { return }
            state.isShown = false
            _ = Terminal.write(Self.leaving, to: STDOUT_FILENO)
            if var settings = state.settings { tcsetattr(STDIN_FILENO, TCSANOW, &settings) }
        }
    }
}
