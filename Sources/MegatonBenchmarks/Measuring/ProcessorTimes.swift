import Foundation

/// Times of this machine's processors since it started, in ticks (proc(5), `/proc/stat`).
struct ProcessorTimes: Sendable {
    private let busy: Int
    private let all: Int

    /// Nil if there is no /proc.
    static func now() -> ProcessorTimes? {
        // user nice system idle iowait irq softirq steal; the guests' times are included in these.
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("cpu ") })
        else { return nil }
        let ticks = line.split(separator: " ").dropFirst().prefix(8).compactMap { Int($0) }
        guard ticks.count == 8 else { return nil }
        let all = ticks.reduce(0, +)
        return ProcessorTimes(busy: all - ticks[3] - ticks[4], all: all)
    }

    /// Used fraction of the time of all processors, 0 to 1.
    func load(since earlier: ProcessorTimes) -> Double {
        Double(busy - earlier.busy) / Double(max(1, all - earlier.all))
    }
}
