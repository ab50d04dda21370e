internal import Foundation

/// The common JSON encoding of Megaton's values: sorted fields, one line, no escaped slashes.
enum WireJSON {
    /// - Precondition: the value has strings, integers and finite numbers only, which always encode.
    static func data(_ value: some Encodable) -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return try encoder.encode(value)
        } catch {
            preconditionFailure("strings, integers and finite numbers always encode: \(error)")
        }
    }

    static func text(_ value: some Encodable) -> String { String(decoding: data(value), as: UTF8.self) }
}
