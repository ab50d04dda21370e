internal import MegatonCore
internal import MegatonPipeline

/// One option of an image URL, `name:argument:argument…`, and readers of its arguments.
///
/// An argument that is missing is read like an empty one. Each reader throws an error with the option, the value and
/// the allowed values.
struct ImageArguments: Sendable, Equatable {
    /// As the URL writes it, long or short.
    let name: String
    private(set) var values: [String]

    init(_ segment: String) {
        let parts = segment.utf8.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        name = parts[0]
        values = Array(parts.dropFirst())
    }

    /// The option `preset` with the names of a URL in presets-only mode.
    init(presets names: String) { self.init("preset:" + names) }

    /// The argument, or an empty text.
    subscript(index: Int) -> String { values.indices.contains(index) ? values[index] : "" }

    /// The arguments from this one on, of the same option.
    func dropping(_ count: Int) -> Self {
        var rest = self
        rest.values.removeFirst(min(count, values.count))
        return rest
    }

    func checkCount(_ allowed: ClosedRange<Int>) throws(ImageURLError) {
        if allowed.contains(values.count) { return }
        let numbers =
            allowed.count == 1 ? "is \(allowed.lowerBound)" : "are \(allowed.lowerBound) to \(allowed.upperBound)"
        throw ImageURLError(
            .option,
            "Option \(FieldProblem.quoted(name)) has \(values.count) arguments; allowed \(numbers)"
        )
    }

    /// The error for an argument.
    ///
    /// - Parameter allowed: The allowed values with a verb, such as `are 1 to 100`.
    func problem(_ index: Int, _ part: String = "value", allowed: String) -> ImageURLError {
        .value(self[index], of: part, in: name, allowed: allowed)
    }

    // MARK: - Values

    /// The words for true and false of imgproxy.
    func flag(_ index: Int, _ part: String = "value") throws(ImageURLError) -> Bool {
        switch self[index] {
        case "1", "t", "T", "true", "True", "TRUE": return true
        case "0", "f", "F", "false", "False", "FALSE": return false
        default: throw problem(index, part, allowed: "are 1, t and true, or 0, f and false")
        }
    }

    func whole(_ index: Int, _ range: ClosedRange<Int>) throws(ImageURLError) -> Int {
        try whole(index, "value", range)
    }

    func whole(_ index: Int, _ part: String, _ range: ClosedRange<Int>) throws(ImageURLError) -> Int {
        if let number = Int(self[index]), range.contains(number) { return number }
        throw problem(index, part, allowed: "are whole numbers from \(range.lowerBound) to \(range.upperBound)")
    }

    /// A number, without infinity, NaN and hexadecimal.
    func number(_ index: Int, _ range: ClosedRange<Double>) throws(ImageURLError) -> Double {
        try number(index, "value", range)
    }

    func number(_ index: Int, _ part: String, _ range: ClosedRange<Double>) throws(ImageURLError) -> Double {
        if let number = decimal(index), range.contains(number) { return number }
        throw problem(index, part, allowed: "are numbers \(Self.text(range))")
    }

    /// A number within the range, or nil for 0, which turns the option off.
    func numberOrOff(_ range: ClosedRange<Double>) throws(ImageURLError) -> Double? {
        guard let number = decimal(0), number == 0 || range.contains(number) else {
            throw problem(0, allowed: "are 0 and numbers \(Self.text(range))")
        }
        return number == 0 ? nil : number
    }

    func word<Value>(_ index: Int, _ part: String = "value", among words: [(String, Value)]) throws(ImageURLError)
        -> Value
    {
        if let word = words.first(where: { $0.0 == self[index] }) { return word.1 }
        throw problem(index, part, allowed: "are " + words.map(\.0).joined(separator: ", "))
    }

    /// Three or six hex digits.
    func color(_ index: Int) throws(ImageURLError) -> Color {
        let digits = self[index]
        let isHex = digits.utf8.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
        guard isHex, let color = Color(hex: digits) else {
            throw problem(index, "color", allowed: "are three or six hex digits, such as ff8800")
        }
        return color
    }

    func format(_ index: Int = 0, _ part: String = "format") throws(ImageURLError) -> Rendition.Format {
        if let format = Rendition.Format(word: self[index]) { return format }
        // No server makes others; see `ImageURLSettings.formats`.
        throw problem(index, part, allowed: "are jpeg (also jpg), png, webp, avif, gif")
    }

    private func decimal(_ index: Int) -> Double? {
        // `Double` also reads inf, nan and 0x1p4.
        guard self[index].utf8.allSatisfy({ "0123456789+-.eE".utf8.contains($0) }) else { return nil }
        return Double(self[index]).flatMap { $0.isFinite ? $0 : nil }
    }

    private static func text(_ range: ClosedRange<Double>) -> String {
        "from \(text(range.lowerBound)) to \(text(range.upperBound))"
    }

    /// A whole number without a fraction.
    static func text(_ number: Double) -> String {
        Int(exactly: number).map(String.init) ?? "\(number)"
    }
}
