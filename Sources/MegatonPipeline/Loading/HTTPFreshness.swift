internal import Foundation

/// How long an answer of an origin may be used (RFC 9111 sections 3 and 4.2.1), and for how long it may still be served
/// when it is stale (RFC 5861).
struct HTTPFreshness: Equatable {
    /// Seconds; nil where the answer must not be kept. 0 where it may be, but must be revalidated before each use.
    let lifetime: Double?
    /// Seconds after the lifetime, nil for none: it may be served while the origin is asked.
    let staleWhileRevalidate: Double?
    /// Seconds after the lifetime, nil for none: it may be served in the place of an error.
    let staleIfError: Double?

    /// What an origin that says nothing is taken to mean. Section 4.2.2 leaves the heuristic to us: images at a URL
    /// seldom change.
    static let defaultLifetime: Double = 7 * 24 * 3600

    /// - Parameter headers: names in lower case.
    init(headers: [String: String]) {
        let directives = Self.directives(headers["cache-control"] ?? "")
        let left = Self.secondsLeft(directives, headers)
        // RFC 9111 section 4.2.4: these forbid to serve what is stale, whatever else is said. `s-maxage` would too
        // (section 5.2.2.10), but an origin that sends it with `stale-…` means us: only shared caches heed it.
        let mayBeStale = ["no-cache", "must-revalidate", "proxy-revalidate"].allSatisfy { directives[$0] == nil }
        func window(_ name: String) -> Double? {
            guard mayBeStale, let seconds = directives[name].flatMap(Self.seconds) else { return nil }
            // What was stale already when it came has used up a part of it.
            let rest = seconds + min(0, left)
            return rest > 0 ? rest : nil
        }
        let (whileRevalidating, ifError) = (window("stale-while-revalidate"), window("stale-if-error"))
        let hasValidator = ["etag", "last-modified"].contains { headers[$0]?.isEmpty == false }
        let isOfUse = left > 0 || hasValidator || whileRevalidating != nil || ifError != nil
        let isKept = isOfUse && !Self.forbidsStoring(directives, headers)
        lifetime = isKept ? max(0, left) : nil
        staleWhileRevalidate = isKept ? whileRevalidating : nil
        staleIfError = isKept ? ifError : nil
    }

    /// A shared cache: `private` is not for us.
    private static func forbidsStoring(_ directives: [String: String], _ headers: [String: String]) -> Bool {
        directives["no-store"] != nil || directives["private"] != nil || headers["vary"]?.contains("*") == true
    }

    /// Negative where it was stale when it came. In a shared cache `s-maxage` goes before `max-age`.
    private static func secondsLeft(_ directives: [String: String], _ headers: [String: String]) -> Double {
        if directives["no-cache"] != nil { return 0 }
        guard let age = (directives["s-maxage"] ?? directives["max-age"]).flatMap(seconds) else {
            return defaultLifetime
        }
        return age - (headers["age"].flatMap(seconds) ?? 0)
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
