/// Location of a line, for messages: `jobs.jsonl, line 3`.
struct LinePlace: Sendable, Equatable, CustomStringConvertible {
    /// The list, as the user named it.
    let list: String
    /// Line number, from 1.
    let number: Int

    var description: String { "\(list), line \(number)" }
}
