import Foundation

/// A value that the parser cannot convert, such as the `abc` of `--workers abc`: the parser says neither which kind of
/// value the option takes nor its bounds.
struct InvalidValue: Equatable {
    /// Name of the option as it was typed, or of the argument: `--workers`, `-j`, `<n>`.
    let name: String
    let value: String

    /// No option takes a number as large, so that the message about it has the bounds.
    private static let tooLarge = "999999999999999"

    /// - Returns: nil for another message of the parser.
    init?(message: String) {
        let (start, middle) = ("The value '", "' is invalid for '")
        guard message.hasPrefix(start), message.hasSuffix("'"),
            let range = message.range(of: middle, options: .backwards)
        else { return nil }
        value = String(message[..<range.lowerBound].dropFirst(start.count))
        name = String(message[range.upperBound...].dropLast().prefix { $0 != " " })
    }

    /// The sentence with the bounds of the option, or at least with its kind; nil if the option takes no number.
    ///
    /// - Parameters:
    ///   - arguments: those of the call.
    ///   - message: the message of the parser and of the command about other arguments; nil if these are valid.
    func sentence(_ arguments: [String], message: ([String]) -> String?) -> String? {
        guard let large = replaced(in: arguments, by: Self.tooLarge), let half = replaced(in: arguments, by: "1.5")
        else {
            return nil
        }
        let shown = "\"\(value)\""
        let bounds = message(large) ?? ""
        guard InvalidValue(message: bounds)?.name != name else { return nil }
        if bounds.contains(Self.tooLarge), bounds.contains("must be") || bounds.contains("allowed are") {
            return bounds.replacingOccurrences(of: "\(Self.tooLarge).0", with: shown)
                .replacingOccurrences(of: Self.tooLarge, with: shown)
        }
        let isWhole = message(half).flatMap { InvalidValue(message: $0)?.name } == name
        return "\(name) must be \(isWhole ? "a whole number" : "a number"), not \(shown)."
    }

    /// The arguments with a text in the place of the value; nil if it is not among them in a usual form.
    private func replaced(in arguments: [String], by text: String) -> [String]? {
        var (result, isFound) = (arguments, false)
        for index in arguments.indices {
            let argument = arguments[index]
            var new: String?
            if argument == "\(name)=\(value)" {
                new = "\(name)=\(text)"
            } else if index > 0, arguments[index - 1] == name, argument == value {
                new = text
            } else if !name.hasPrefix("--"), argument == name + value {
                new = name + text
            } else if name.hasPrefix("<"), argument == value {
                new = text
            }
            guard let new else { continue }
            // The value may be the text itself.
            (result[index], isFound) = (new, true)
        }
        return isFound ? result : nil
    }
}
