/// Where a line stands, for messages: `jobs.jsonl, line 3`.
struct LinePlace: Sendable, Equatable, CustomStringConvertible {
    /// The list, as it was opened.
    let list: String
    /// The first is 1.
    let number: Int

    var description: String { "\(list), line \(number)" }
}
