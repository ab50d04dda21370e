internal import Foundation

/// How long an answer of an origin may be used (RFC 9111 sections 3 and 4.2.1).
struct HTTPFreshness: Equatable {
    /// Seconds; nil where the answer must not be kept.
    let lifetime: Double?

    /// What an origin that says nothing is taken to mean. Section 4.2.2 leaves the heuristic to us: images at a URL
    /// seldom change.
    static let defaultLifetime: Double = 7 * 24 * 3600

    /// - Parameter headers: names in lower case.
    init(headers: [String: String]) {
        let directives = Self.directives(headers["cache-control"] ?? "")
        // A shared cache: `private` is not for us, and `s-maxage` goes before `max-age`.
        if directives["no-store"] != nil || directives["private"] != nil || headers["vary"]?.contains("*") == true {
            lifetime = nil
        } else if directives["no-cache"] != nil {
            lifetime = nil
        } else if let age = (directives["s-maxage"] ?? directives["max-age"]).flatMap(Self.seconds) {
            let spent = headers["age"].flatMap(Self.seconds) ?? 0
            lifetime = age > spent ? age - spent : nil
        } else {
            lifetime = Self.defaultLifetime
        }
    }

    /// delta-seconds: whole, not negative (RFC 9111 section 1.2.2). Beyond a year more means nothing to us.
    private static func seconds(_ text: String) -> Double? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return min(Double(text) ?? 0, 365 * 24 * 3600)
    }

    private static func directives(_ value: String) -> [String: String] {
        var found: [String: String] = [:]
        for part in value.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            guard let name = pair.first?.lowercased(), !name.isEmpty else { continue }
            found[name] = pair.count > 1 ? pair[1].trimmingCharacters(in: CharacterSet(charactersIn: "\"")) : ""
        }
        return found
    }
}
