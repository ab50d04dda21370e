/// Numbers of things in messages: "1 fetch", "2 fetches".
package enum Counted {
    package static func files(_ count: Int) -> String { of(count, "file") }
    package static func jobs(_ count: Int) -> String { of(count, "job") }
    package static func fetches(_ count: Int) -> String { of(count, "fetch", "fetches") }
    package static func renders(_ count: Int) -> String { of(count, "render") }

    /// - Parameter word: inserted before the noun: "3 more lines".
    package static func lines(_ count: Int, _ word: String = "") -> String {
        of(count, word.isEmpty ? "line" : "\(word) line", word.isEmpty ? "lines" : "\(word) lines")
    }

    /// - Parameters:
    ///   - one: the noun in the singular.
    ///   - many: the noun in the plural; with an s if nil.
    package static func of(_ count: Int, _ one: String, _ many: String? = nil) -> String {
        "\(count) \(count == 1 ? one : many ?? one + "s")"
    }
}
