import Foundation
import MegatonCluster

/// Tells how far a batch is: a bar on a terminal, a line every 10 s elsewhere.
struct ProgressReporter {
    private let isInteractive: Bool
    private let start = ContinuousClock.now
    private var last: ContinuousClock.Instant?
    private var hasShown = false
    /// The host that jobs of the batch wait for, if there is one.
    var waitedFor: JobQueue.WaitedFor?

    private static let barWidth = 24

    init(isInteractive: Bool) {
        self.isInteractive = isInteractive
        // The first line elsewhere comes after 10 s: what is done sooner needs none.
        last = isInteractive ? nil : .now
    }

    /// - Parameters:
    ///   - submitted: jobs so far.
    ///   - isComplete: no more will come, so that the time left can be told.
    mutating func show(ended: Int, submitted: Int, failed: Int, isComplete: Bool) {
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < (isInteractive ? .milliseconds(100) : .seconds(10)) { return }
        last = now
        hasShown = true
        let elapsed = start.duration(to: now)
        let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
        let rate = seconds > 0 ? Double(ended) / seconds : 0
        var text = "\(ended) of \(submitted)\(isComplete ? "" : "+"), \(String(format: "%.1f", rate)) a second"
        if failed > 0 { text += ", \(failed) failed" }
        if let waitedFor { text += ", waiting for \(waitedFor.host), next try in \(Self.time(waitedFor.seconds))" }
        if isComplete && rate > 0 { text += ", \(Self.time(Double(submitted - ended) / rate)) left" }
        if isInteractive {
            let part = submitted > 0 ? Double(ended) / Double(submitted) : 0
            let full = Int(part * Double(Self.barWidth))
            let bar = String(repeating: "#", count: full) + String(repeating: ".", count: Self.barWidth - full)
            Terminal.status("[\(bar)] \(text)")
        } else {
            Terminal.error("megaton: \(text)")
        }
    }

    /// Leaves the bar's line.
    func end() {
        if isInteractive && hasShown { Terminal.status("") }
    }

    static func time(_ seconds: Double) -> String {
        let whole = Int(min(seconds, 1e9).rounded(.up))
        if whole < 60 { return "\(whole) s" }
        if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
        return "\(whole / 3600) h \(whole % 3600 / 60) min"
    }
}
