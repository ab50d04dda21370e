import ArgumentParser
import MegatonPipeline

/// Sets the fields of a rendition from text, by their JSON names.
struct RenditionFields {
    private(set) var rendition: Rendition
    /// The option that contains the text, for messages.
    let option: String

    init(_ rendition: Rendition, of option: String) {
        self.rendition = rendition
        self.option = option
    }

    static let names = [
        "name", "width", "height", "fit", "format", "quality", "background", "gravity", "focus", "dpr", "enlarge",
        "progressive", "effort", "lossless", "animated", "keepMetadata", "profile",
        "qualityProfile", "failOn",
    ]

    /// - Throws: `ValidationError` for an unknown field, or an invalid value.
    mutating func set(_ field: String, to text: String) throws {
        switch field {
        case "name": rendition.name = text
        case "width": rendition.width = try number(field, text)
        case "height": rendition.height = try number(field, text)
        case "fit": rendition.fit = try choice(field, text)
        case "format": rendition.format = try choice(field, text)
        case "quality": rendition.quality = try number(field, text)
        case "background": rendition.background = try color(text)
        case "gravity": rendition.gravity = try choice(field, text)
        case "focus": rendition.focus = try focus(text)
        case "dpr": rendition.dpr = try fraction(field, text)
        case "enlarge": rendition.enlarge = try truth(field, text)
        case "progressive": rendition.progressive = try truth(field, text)
        case "effort": rendition.effort = try number(field, text)
        case "lossless": rendition.lossless = try truth(field, text)
        case "animated": rendition.animated = try truth(field, text)
        case "keepMetadata": rendition.keepMetadata = try choice(field, text)
        case "profile": rendition.profile = try choice(field, text)
        case "qualityProfile": rendition.qualityProfile = try choice(field, text)
        case "failOn": rendition.failOn = try choice(field, text)
        default:
            throw ValidationError(
                "\(option) has no field \"\(field)\"; its fields are \(Self.names.joined(separator: ", "))."
            )
        }
    }

    private func number(_ field: String, _ text: String) throws -> Int {
        guard let number = Int(text) else { throw wrong(field, text, "must be a number") }
        return number
    }

    private func fraction(_ field: String, _ text: String) throws -> Double {
        guard let number = Double(text) else { throw wrong(field, text, "must be a number") }
        return number
    }

    private func truth(_ field: String, _ text: String) throws -> Bool {
        guard let truth = Bool(text) else { throw wrong(field, text, "must be true or false") }
        return truth
    }

    private func color(_ text: String) throws -> Color {
        guard let color = Color(hex: text) else { throw wrong("background", text, "must look like #ffffff") }
        return color
    }

    /// A colon may replace the comma, which ends a field of `--rendition`.
    private func focus(_ text: String) throws -> Rendition.FocalPoint {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == "," || $0 == ":" }
        guard parts.count == 2, let x = Double(parts[0]), let y = Double(parts[1]) else {
            throw wrong(
                "focus",
                text,
                "must look like 0.5,0.3 (0.5:0.3 in --rendition): fractions of width and height from the top left"
            )
        }
        return Rendition.FocalPoint(x: x, y: y)
    }

    private func choice<Value: WordChoice>(_ field: String, _ text: String) throws -> Value {
        guard let value = Value(word: text) else {
            let near = Value.suggestion(for: text).map { " (did you mean \($0)?)" } ?? ""
            throw wrong(field, text, "must be one of \(Value.allowedWords)\(near)")
        }
        return value
    }

    private func wrong(_ field: String, _ text: String, _ rule: String) -> ValidationError {
        ValidationError("\(option): \(field) \(rule), not \"\(text)\".")
    }
}
