/// An option of renditions: its row in ``all`` drives its JSON and its JSON schema, its part of `Rendition.identity`,
/// its argument of libvips' encoders, its field of `--rendition`, and its flag with the text of `--help`.
///
/// The row also validates options of encoders (`Encoding`). The range of a number is for the schema only: sizes, `dpr`,
/// `fit`, `gravity` and `focus`, which depend on each other, are validated in `Rendition+Validation.swift`.
///
/// A new option is a property of ``Rendition`` and a row. If it changes pixels, `VipsEngine.arrange` must apply it:
/// otherwise it is accepted and has no effect. If it concerns JPEGs that are encoded from planes,
/// `PlanesEngine.swift` applies it or leaves the rendition to libvips. The default of an option is its value in
/// `Rendition()`. Defaults are neither written nor part of the identity, so keys that were stored before an option
/// existed stay valid.
///
/// Rows are made once for a process: coding and validating a rendition only call their closures. Values are accessed
/// by closures instead of key paths, which cost ten times as much here.
package final class RenditionOption: Sendable {
    /// The kind of value that the command line expects.
    package enum Kind: Sendable {
        case flag, whole, number, text
    }

    /// A text that is not a value of an option.
    package struct InvalidText: Error {
        /// The rule that it breaks, in the words that follow the option's name, e.g. `must be a number`.
        package let rule: String
    }

    /// How an option is part of `Rendition.identity`.
    enum Identity: Sendable {
        /// At a fixed place, or not at all: the options of the first version.
        case position
        /// `name=value`, or the name of a flag, unless the value is the default. Nil is the name of the option.
        case field(String?)
        case custom(@Sendable (Rendition) -> String?)
    }

    /// The part of an option in encoding.
    struct Encoding: Sendable {
        /// Formats that have the option, in the order of messages; nil if `problem` decides.
        var formats: [Rendition.Format]?
        /// Describes an invalid value in the words that follow the option's name; nil if it is valid.
        var problem: @Sendable (Rendition) -> String? = { _ in nil }
        /// The argument of libvips' encoder, e.g. `Q=80`; nil for the encoder's default.
        var argument: @Sendable (Rendition) -> String? = { _ in nil }
    }

    /// The field in JSON and in `--rendition`. The flag is the same in kebab case, e.g. `--keep-metadata`.
    package let name: String
    package let kind: Kind
    package let help: String
    /// The value in the synopsis of the flag; nil for the name of the flag.
    package let valueName: String?
    package let hasFlag: Bool
    /// The option as a field of `--rendition`, for its help; with a value only if that is not obvious.
    package let example: String
    /// The value in JSON, described by `help`.
    let schema: JSONSchema
    /// The allowed values; empty if they are not a list of words.
    package var words: [String] { schema.allowedTexts }
    /// The field of the identity; nil if the value is the default. The property is nil if no value has a field.
    let identity: (@Sendable (Rendition) -> String?)?
    let encoding: Encoding?
    /// Reads the field, if it is present.
    let decode: @Sendable (_ fields: Fields, _ rendition: inout Rendition) throws -> Void
    /// Writes the field, unless the value is the default.
    let encode: @Sendable (_ rendition: Rendition, _ fields: inout WrittenFields) throws -> Void
    private let parse: @Sendable (_ text: String, _ rendition: inout Rendition) -> Bool
    private let rule: @Sendable (_ text: String) -> String

    typealias Fields = KeyedDecodingContainer<AnyCodingKey>
    typealias WrittenFields = KeyedEncodingContainer<AnyCodingKey>

    /// Declares an option that may have no value.
    init<Value>(
        _ name: String,
        optional get: @escaping @Sendable (Rendition) -> Value?,
        set: @escaping @Sendable (inout Rendition, Value) -> Void,
        _ form: Form<Value>,
        isAlwaysWritten: Bool = false,
        identity: Identity = .field(nil),
        encoding: Encoding? = nil,
        hasFlag: Bool = true,
        valueName: String? = nil,
        help: String
    ) {
        let usual = get(Rendition())
        let key = AnyCodingKey(name)
        self.name = name
        kind = form.kind
        self.help = help
        self.valueName = valueName
        self.hasFlag = hasFlag
        example = form.example.map { "\(name)=\($0)" } ?? name
        var schema = form.schema
        schema.description = help
        self.schema = schema
        self.identity =
            switch identity {
            case .position: nil
            case .custom(let field): field
            case .field(let other):
                { rendition in
                    guard let value = get(rendition), value != usual else { return nil }
                    return form.kind == .flag ? other ?? name : "\(other ?? name)=\(form.text(value))"
                }
            }
        self.encoding = encoding?.refusingOtherFormats { get($0) != usual }
        decode = { fields, rendition in
            if let value = try form.decode(fields, key) { set(&rendition, value) }
        }
        encode = { rendition, fields in
            guard let value = get(rendition), isAlwaysWritten || value != usual else { return }
            try form.encode(value, &fields, key)
        }
        parse = { text, rendition in
            guard let value = form.parse(text) else { return false }
            set(&rendition, value)
            return true
        }
        rule = form.rule
    }

    /// Whether the option has an effect on images of a format.
    package func applies(to format: Rendition.Format) -> Bool {
        switch name {
        case "effort": format.efforts != nil
        case "keepMetadata": format.hasMetadata
        default: encoding?.formats?.contains(format) ?? true
        }
    }

    /// Parses a value of the command line.
    package func set(_ text: String, in rendition: inout Rendition) throws(InvalidText) {
        if !parse(text, &rendition) { throw InvalidText(rule: rule(text)) }
    }
}

extension RenditionOption {
    /// Declares an option that always has a value.
    convenience init<Value>(
        _ name: String,
        get: @escaping @Sendable (Rendition) -> Value,
        set: @escaping @Sendable (inout Rendition, Value) -> Void,
        _ form: Form<Value>,
        isAlwaysWritten: Bool = false,
        identity: Identity = .field(nil),
        encoding: Encoding? = nil,
        hasFlag: Bool = true,
        valueName: String? = nil,
        help: String
    ) {
        self.init(
            name,
            optional: { get($0) },
            set: set,
            form,
            isAlwaysWritten: isAlwaysWritten,
            identity: identity,
            encoding: encoding,
            hasFlag: hasFlag,
            valueName: valueName,
            help: help
        )
    }
}

extension RenditionOption.Encoding {
    /// Adds the rule that an option that has no effect on a format is invalid with it.
    fileprivate func refusingOtherFormats(isSet: @escaping @Sendable (Rendition) -> Bool) -> Self {
        guard let formats else { return self }
        let words = formats.map(\.rawValue)
        let names = [words.dropLast().joined(separator: ", "), words.last ?? ""].filter { !$0.isEmpty }
            .joined(separator: " and ")
        return Self(
            formats: formats,
            problem: { rendition in
                guard isSet(rendition) else { return nil }
                if !formats.contains(rendition.format) { return "is for \(names), not \(rendition.format.rawValue)" }
                return problem(rendition)
            },
            argument: { formats.contains($0.format) ? argument($0) : nil }
        )
    }
}
