import Foundation
import MegatonPipeline

/// How far a batch is, for people.
struct BatchProgress: Sendable, Equatable {
    var ended = 0
    var submitted = 0
    var failed = 0
    /// Whether no more jobs will come, so that the time left can be estimated.
    var isComplete = false
    /// Since the batch began.
    var seconds = 0.0
    /// The jobs that wait for another try, or for a host, and for how long; nil if none does.
    var waiting: String?
    /// Whether all jobs that have not ended wait: there is no time left to be estimated.
    var onlyWaits = false

    private static let barWidth = 24

    /// The line for a terminal of so many columns: without the bar, then without the rate, if there is no room for them.
    func line(columns: Int) -> String {
        // The last column stays free: some terminals begin a new line once it is filled.
        let room = max(0, columns - 1)
        let part = submitted > 0 ? Double(ended) / Double(submitted) : 0
        let full = Int(part * Double(Self.barWidth))
        let bar = String(repeating: "#", count: full) + String(repeating: ".", count: Self.barWidth - full)
        let lines = ["[\(bar)] \(text())", text(), text(hasRate: false)]
        return lines.first { TextColumns.count($0) <= room } ?? TextColumns.fitted(lines[2], room)
    }

    /// The line without a bar.
    func text(hasRate: Bool = true) -> String {
        let rate = seconds > 0 ? Double(ended) / seconds : 0
        var parts = ["\(ended) of \(submitted)\(isComplete ? "" : "+")"]
        if hasRate { parts.append("\(String(format: "%.1f", rate)) a second") }
        if failed > 0 { parts.append("\(failed) failed") }
        if let waiting { parts.append(waiting) }
        if isComplete && rate > 0 && !onlyWaits { parts.append("\(Self.time(Double(submitted - ended) / rate)) left") }
        return parts.joined(separator: ", ")
    }

    static func time(_ seconds: Double) -> String {
        let whole = Int(max(0, min(seconds, 1e9)).rounded(.up))
        if whole < 60 { return "\(whole) s" }
        if whole < 3600 { return "\(whole / 60) min \(whole % 60) s" }
        return "\(whole / 3600) h \(whole % 3600 / 60) min"
    }
}

/// Shows how far a batch is: a bar on a terminal, a line every 10 s elsewhere.
struct ProgressReporter {
    private let isInteractive: Bool
    private let start = ContinuousClock.now
    private var last: ContinuousClock.Instant?
    private var hasShown = false

    init(isInteractive: Bool) {
        self.isInteractive = isInteractive
        // The first line elsewhere comes after 10 s: what is done sooner needs none.
        last = isInteractive ? nil : .now
    }

    /// - Parameter progress: all but the time, which is set here.
    mutating func show(_ progress: BatchProgress) {
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < (isInteractive ? .milliseconds(100) : .seconds(10)) { return }
        last = now
        hasShown = true
        var progress = progress
        progress.seconds = start.duration(to: now).inSeconds
        if isInteractive {
            Terminal.status(progress.line(columns: Terminal.columns))
        } else {
            Terminal.note("megaton: \(progress.text())")
        }
    }

    /// Leaves the bar's line.
    func end() {
        if isInteractive && hasShown { Terminal.status("") }
    }
}
