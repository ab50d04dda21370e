internal import MegatonPipeline

/// The reason of the last failure of a host, for the message of jobs that find its circuit breaker open: they are
/// refused without a request, and cannot know it otherwise.
///
/// The text is about the host. It is short, and has no URL, as it is shown to jobs with other URLs of the host.
struct HostFailure: Sendable, Equatable, CustomStringConvertible {
    /// The code of the error, and its message.
    let description: String

    /// Maximum number of characters of the text: Redis keeps one for each of at most 50,000 hosts.
    static let maximumLength = 120

    init(_ error: ImagePipeline.Error) {
        // A word with a slash may be a URL or a path, and one with an at sign may have a user.
        let words = error.message.split(separator: " ").filter { word in !word.contains { "/@?".contains($0) } }
        var text = "\(error.code.rawValue): \(words.joined(separator: " "))"
        text = String(String.UnicodeScalarView(text.unicodeScalars.map { Self.isPlain($0) ? $0 : "?" }))
        text = String(text.prefix(Self.maximumLength))
        while let last = text.last, " .:".contains(last) { text.removeLast() }
        description = text
    }

    /// - Parameter word: a text of `word`; nil if Redis has none, or that of another program.
    init?(word: String?) {
        guard let word, !word.isEmpty, word.unicodeScalars.count <= Self.maximumLength,
            word.unicodeScalars.allSatisfy({ $0 == "+" || Self.isPlain($0) && $0 != " " })
        else { return nil }
        description = String(word.map { $0 == "+" ? " " : $0 })
    }

    /// The text as one word that begins with a letter: the state of a host in Redis has words that are separated by
    /// spaces, and earlier versions ignore those that are no numbers.
    var word: String { String(description.map { $0 == " " ? "+" : $0 }) }

    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", " ", "_", "-", ".", ",", ":", ";", "'", "(", ")", "?": true
        default: false
        }
    }
}
