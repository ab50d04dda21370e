/// A value that users choose by a word, in jobs and in options.
///
/// The type itself defines alternative words (`jpg` for `jpeg`), so that every parser accepts the same words and lists
/// the same ones for an unknown word. Values are always written with their own word.
public protocol WordChoice: RawRepresentable, CaseIterable, Codable, Sendable where RawValue == String {
    /// Alternative words for values.
    static var aliases: [String: Self] { get }
    /// The word of the value in help and messages: one of its aliases if that is clearer than the word that is stored.
    var preferredWord: String { get }
}

extension WordChoice {
    public static var aliases: [String: Self] { [:] }

    /// The word of the value itself.
    public var preferredWord: String { rawValue }

    /// Nil if neither a value nor an alias has this word.
    package init?(word: String) {
        guard let value = Self(rawValue: word) ?? Self.aliases[word] else { return nil }
        self = value
    }

    /// The words for people, with aliases beside their values, e.g. `jpeg (also jpg), png, webp`.
    package static var allowedWords: String {
        let aliases = Self.aliases
        return allCases.map { value in
            let word = value.preferredWord
            let words = aliases.filter { $0.value.rawValue == value.rawValue }.keys + [value.rawValue]
            let others = words.filter { $0 != word }.sorted()
            return others.isEmpty ? word : "\(word) (also \(others.joined(separator: ", ")))"
        }.joined(separator: ", ")
    }

    /// The word that was probably meant; nil if none is similar.
    package static func suggestion(for word: String) -> String? {
        Spelling.nearest(to: word, among: allCases.map(\.rawValue) + aliases.keys.sorted())
    }

    /// - Throws: `DecodingError` with a sentence that names the field, the value and the allowed words.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // A word of digits may be written as a number.
        let word = (try? container.decode(String.self)) ?? (try? container.decode(Int.self)).map(String.init)
        guard let value = word.flatMap(Self.init(word:)) else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                FieldProblem.unknown(JSONTree.shown(from: decoder), allowed: Self.allowedWords, like: Self.suggestion)
            )
        }
        self = value
    }
}
