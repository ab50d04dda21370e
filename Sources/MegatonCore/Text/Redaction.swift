internal import Foundation

/// Removes the parts of URLs that messages, logs and other processes must not contain: user, password, query and
/// fragment.
///
/// Signatures and tokens have too many names to list them all, so every value of a query is removed.
package enum Redaction {
    /// Maximum characters of a URL that are shown.
    static let maximumURL = 2048

    /// Redacts a text that is a single URL. Idempotent.
    package static func url(_ text: String) -> String {
        // The image itself would follow.
        if text.prefix(5).lowercased() == "data:" { return "data:…" }
        let end = text.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        if !text.utf8[..<end].contains(UInt8(ascii: "@")) { return shown(text, until: end) }
        var rest = Substring(text)
        // A URL without a scheme may still have a host.
        let start = rest.hasPrefix("//") ? "//" : ""
        if !start.isEmpty { rest = withoutUser(rest.dropFirst(2)) }
        return String(redacted(rest, start: start, isWholeURL: true).prefix(maximumURL))
    }

    /// Redacts a URL without a user, as nearly all are: only the query has to be removed. Works on bytes, because it
    /// runs for each request.
    private static func shown(_ text: String, until end: String.Index) -> String {
        let tail = text[end...]
        let shown = tail.isEmpty || isRedacted(tail) ? text : String(text[..<end]) + "?…"
        return shown.utf8.count <= maximumURL ? shown : String(shown.prefix(maximumURL))
    }

    /// Redacts the URLs within a text, such as the error message of a custom loader.
    package static func text(_ text: String) -> String {
        // Most texts contain no URL.
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

    /// Removes the users, the passwords and the values of queries that look like signatures or tokens from the URLs
    /// within a text. Other values stay, so that a reader recognizes its own URLs. Idempotent.
    package static func secrets(in text: String) -> String {
        guard text.contains("://") else { return text }
        var (result, rest) = ("", Substring(text))
        while let mark = rest.range(of: "://") {
            result += rest[..<mark.upperBound]
            rest = withoutUser(rest[mark.upperBound...])
        }
        return withoutSecretValues(result + String(rest))
    }

    private static func withoutSecretValues(_ text: String) -> String {
        func isMark(_ character: Character) -> Bool { "?&;#".contains(character) }
        var (result, rest) = ("", Substring(text))
        while let mark = rest.firstIndex(where: isMark) {
            let start = rest.index(after: mark)
            result += rest[..<start]
            let argument = rest[start...].prefix { !isMark($0) && !isEnd($0) }
            rest = rest[argument.endIndex...]
            let equals = argument.firstIndex(of: "=")
            let value = equals.map { argument[argument.index(after: $0)...] } ?? argument
            result += argument[..<value.startIndex]
            result += isSecret(value, name: equals.map { argument[..<$0] } ?? "") ? "…" : value
        }
        return result + String(rest)
    }

    /// Parts of the names of arguments that are secrets, such as `X-Amz-Signature` and `api_key`.
    private static let secretNames = [
        "sig", "token", "secret", "pass", "pwd", "auth", "cred", "key", "session", "policy", "hmac",
    ]
    /// Characters from which on a value of letters and digits alone looks like a secret.
    private static let secretLength = 24

    /// Whether the value of an argument may be a secret, by its name or its form.
    private static func isSecret(_ value: Substring, name: Substring) -> Bool {
        if value.isEmpty { return false }
        let name = (String(name).removingPercentEncoding ?? String(name)).lowercased()
        if secretNames.contains(where: { name.contains($0) }) { return true }
        // The user of a URL in the value.
        if value.contains("@") || value.contains("%40") { return true }
        let isRandom = value.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
            case UInt8(ascii: "0")...UInt8(ascii: "9"): true
            default: "-_+=%~".utf8.contains(byte)
            }
        }
        return isRandom && value.utf8.count >= secretLength && value.contains { $0.isNumber }
    }

    /// The text after `//`, from the host on.
    private static func withoutUser(_ text: Substring) -> Substring {
        let authority = text.prefix { !"/?#".contains($0) && !isEnd($0) }
        return authority.lastIndex(of: "@").map { text[text.index(after: $0)...] } ?? text
    }

    /// Whether the query was redacted before: the characters after `?…` belong to the surrounding sentence.
    private static func isRedacted(_ tail: Substring) -> Bool {
        tail.hasPrefix("?…") && tail.dropFirst(2).allSatisfy { ").,:;]'".contains($0) }
    }

    /// Characters that no URL contains.
    private static func isEnd(_ character: Character) -> Bool { character.isWhitespace || "\"<>`".contains(character) }
}

extension URL {
    /// The URL for messages and logs, without parts that may be secret.
    package var redacted: String { Redaction.url(absoluteString) }
}
