import ArgumentParser

/// Bounds of the numbers that options take.
package enum OptionRange {
    /// Checks a number; nil, an option that was not given, is always valid.
    ///
    /// - Parameters:
    ///   - option: its name with the dashes, for the message.
    ///   - unit: follows the bounds in the message, with a space in front.
    /// - Throws: `ValidationError` with the bounds and the value.
    package static func check<Value: Comparable>(
        _ option: String,
        _ value: Value?,
        _ range: ClosedRange<Value>,
        _ unit: String = ""
    ) throws {
        guard let value, !range.contains(value) else { return }
        throw ValidationError(
            "\(option) must be \(text(range.lowerBound)) to \(text(range.upperBound))\(unit), not \(text(value))."
        )
    }

    /// The number without the ".0" of whole ones.
    private static func text(_ value: some Comparable) -> String {
        let text = "\(value)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}
