import Foundation
import MegatonCommandLine
import MegatonPipeline

/// Progress of a batch as text for a terminal or a log.
struct BatchProgress: Sendable, Equatable {
    var ended = 0
    var submitted = 0
    var failed = 0
    /// Whether no more jobs will come, so that the time left can be estimated.
    var isComplete = false
    /// Seconds since the batch began.
    var seconds = 0.0
    /// The jobs that wait for a retry, for a host or for their time, and how long; nil if none waits.
    var waiting: String?
    /// Whether all remaining jobs wait, so that no remaining time can be estimated.
    var onlyWaits = false

    private static let barWidth = 24

    /// The line for a terminal of `columns` columns: without the bar, then without the rate, if there is no room for
    /// them.
    func line(columns: Int) -> String {
        // The last column stays free: some terminals begin a new line when it is filled.
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

/// Progress of reading and comparing, whose end is not known, as text for a terminal or a log.
struct ReadProgress: Sendable, Equatable {
    var count: Int
    /// The counted things and their step, such as "jobs compared".
    var step: String

    func text(seconds: Double) -> String {
        let rate = seconds > 0 ? Double(count) / seconds : 0
        return "\(count) \(step), \(String(format: "%.0f", rate)) a second"
    }
}

/// Shows progress, such as that of a batch: a line that is replaced on a terminal, otherwise a line every 10 s.
struct ProgressReporter {
    private let isInteractive: Bool
    private let isSilent: Bool
    private let start = ContinuousClock.now
    private var last: ContinuousClock.Instant?
    private var hasShown = false

    /// - Parameter isSilent: whether nothing is shown.
    init(isInteractive: Bool, isSilent: Bool = false) {
        self.isInteractive = isInteractive
        self.isSilent = isSilent
        // Without a terminal the first line comes after 10 s: a shorter batch needs none.
        last = isInteractive ? nil : .now
    }

    /// - Parameter progress: all fields but the time, which is set here.
    mutating func show(_ progress: BatchProgress) {
        showIfDue { seconds, columns in
            var progress = progress
            progress.seconds = seconds
            return columns.map(progress.line(columns:)) ?? progress.text()
        }
    }

    mutating func show(_ progress: ReadProgress) {
        showIfDue { seconds, columns in
            let text = progress.text(seconds: seconds)
            return columns.map { TextColumns.fitted(text, max(0, $0 - 1)) } ?? text
        }
    }

    /// - Parameter text: called if a line is due, with the seconds since the start and the columns of the terminal; nil
    ///   without one.
    private mutating func showIfDue(_ text: (_ seconds: Double, _ columns: Int?) -> String) {
        if isSilent { return }
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < (isInteractive ? .milliseconds(100) : .seconds(10)) { return }
        last = now
        hasShown = true
        let seconds = start.duration(to: now).inSeconds
        if isInteractive {
            Terminal.status(text(seconds, Terminal.columns))
        } else {
            Terminal.note("megaton: \(text(seconds, nil))")
        }
    }

    /// Clears the line of the bar.
    func end() {
        if isInteractive && hasShown { Terminal.status("") }
    }
}
