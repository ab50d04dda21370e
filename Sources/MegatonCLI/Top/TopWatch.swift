import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonRedis

/// Shows a cluster on a terminal until a key or a signal ends it.
struct TopWatch: Sendable {
    let inspector: Inspector
    let queue: String
    /// Seconds between two readings.
    let interval: Double

    /// Ctrl-\ is a key on this screen. Ctrl-C and Ctrl-D come as bytes if another program has changed the terminal so.
    private static let endingKeys = Set("qQ\u{3}\u{4}\u{1C}".utf8)

    /// Returns as soon as a key or a signal asks for it, or the terminal is gone.
    ///
    /// - Parameter first: shown at once.
    func run(after first: TopReading) async throws {
        let shutdown = ShutdownSignal()
        try await ProcessSignals.forwarded(to: shutdown) {
            // Begins after signals are trapped, and ends before they are not: one that ends the process would leave the
            // terminal as it is.
            let screen = Screen()
            defer { screen.end() }
            screen.readKeys { if Self.endingKeys.contains($0) { shutdown.raise(to: .drain) } }
            let resizes = AsyncSignal()
            await ProcessSignals.followingWindow({ resizes.signal() }) {
                // Unstructured, because a call of Redis does not end with its task, and a key must end the command at
                // once. It is safe because the clients are closed next, which ends the call, and the screen shows
                // nothing after its end.
                let drawing = Task {
                    await draw(from: first, on: screen, resizes)
                    shutdown.raise(to: .drain)
                }
                await shutdown.wait(for: .drain)
                drawing.cancel()
            }
        }
    }

    /// Reads and draws until the task is cancelled or the terminal is gone.
    private func draw(from first: TopReading, on screen: Screen, _ resizes: AsyncSignal) async {
        var view = TopView(queue: queue, snapshot: TopSnapshot(from: nil, to: first))
        view.hint = "every \(String(format: "%g", interval)) s, q ends"
        var last = first
        var due = ContinuousClock.now + .seconds(interval)
        while !Task.isCancelled {
            let (rows, columns) = Screen.size
            // The screen leaves the last column free.
            guard screen.show(view.lines(height: rows, width: columns - 1)) else { return }
            let isResized = await TimeLimit.wait(atMost: ContinuousClock.now.duration(to: due)) { () async -> Bool? in
                await resizes.wait()
                return Task.isCancelled ? nil : true
            }
            if Task.isCancelled { return }
            // The same numbers again.
            if isResized == true { continue }
            do throws(RedisError) {
                let reading = try await TopReading.read(inspector, after: last)
                (view.fault, view.snapshot) = (nil, TopSnapshot(from: last, to: reading))
                last = reading
            } catch {
                let age = Int(last.time.duration(to: .now).inSeconds)
                view.fault = "the numbers are \(age) s old: \(error.message)"
            }
            due = ContinuousClock.now + .seconds(interval)
        }
    }
}
