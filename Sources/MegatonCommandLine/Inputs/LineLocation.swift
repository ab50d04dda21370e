/// Location of a line, for messages: `jobs.jsonl, line 3`.
package struct LineLocation: Sendable, Equatable, CustomStringConvertible {
    /// Path of the list as it was opened, or `standard input`.
    let list: String
    /// Line number, from 1.
    let number: Int

    package var description: String { "\(list), line \(number)" }
}
