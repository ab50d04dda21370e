/// What people, logs and other processes may read of a URL: neither its user and password nor what stands after its path.
///
/// Signatures and tokens have too many names to know them all, so no value of a query is shown, whatever it is called.
enum Redaction {
    /// Characters of a URL that are shown.
    static let maximumURL = 2048

    /// A text that is a URL and nothing else. Redacted once more it stays the same.
    static func url(_ text: String) -> String {
        // The picture itself would follow.
        if text.prefix(5).lowercased() == "data:" { return "data:…" }
        let end = text.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        if !text.utf8[..<end].contains(UInt8(ascii: "@")) { return shown(text, until: end) }
        var rest = Substring(text)
        // A URL without a scheme may have a host none the less.
        let start = rest.hasPrefix("//") ? "//" : ""
        if !start.isEmpty { rest = withoutUser(rest.dropFirst(2)) }
        return String(redacted(rest, start: start, isWholeURL: true).prefix(maximumURL))
    }

    /// What nearly all URLs are: without a user, so that nothing but the query is to be left out. Looked at by its bytes, as it
    /// is done for each request.
    private static func shown(_ text: String, until end: String.Index) -> String {
        let tail = text[end...]
        let shown = tail.isEmpty || isRedacted(tail) ? text : String(text[..<end]) + "?…"
        return shown.utf8.count <= maximumURL ? shown : String(shown.prefix(maximumURL))
    }

    /// A text with URLs in it, as what a loader of somebody else says of its failure.
    static func text(_ text: String) -> String {
        // Most have none.
        guard text.contains("://") else { return text }
        return redacted(Substring(text), start: "", isWholeURL: false)
    }

    private static func redacted(_ text: Substring, start: String, isWholeURL: Bool) -> String {
        var (result, rest, isInURL) = (start, text, isWholeURL)
        while let character = rest.first {
            if rest.hasPrefix("://") {
                result += "://"
                rest = withoutUser(rest.dropFirst(3))
                isInURL = true
            } else if isInURL, character == "?" || character == "#" {
                let tail = isWholeURL ? rest : rest.prefix { !isEnd($0) }
                result += isRedacted(tail) ? String(tail) : "?…"
                rest = rest[tail.endIndex...]
                isInURL = isWholeURL
            } else {
                if isEnd(character) { isInURL = isWholeURL }
                result.append(character)
                rest = rest.dropFirst()
            }
        }
        return result
    }

    /// What comes after `//`, from the host on.
    private static func withoutUser(_ text: Substring) -> Substring {
        let authority = text.prefix { !"/?#".contains($0) && !isEnd($0) }
        return authority.lastIndex(of: "@").map { text[text.index(after: $0)...] } ?? text
    }

    /// Where it was here before, what follows it belongs to the sentence around.
    private static func isRedacted(_ tail: Substring) -> Bool {
        tail.hasPrefix("?…") && tail.dropFirst(2).allSatisfy { ").,:;]'".contains($0) }
    }

    /// What no URL has in it.
    private static func isEnd(_ character: Character) -> Bool { character.isWhitespace || "\"<>`".contains(character) }
}
