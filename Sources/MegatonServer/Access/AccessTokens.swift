internal import Crypto
package import Foundation
internal import MegatonCore
import Synchronization

/// The tokens that a server accepts. Keeps their SHA-256 digests only, so that no dump of memory or log has a token.
package final class AccessTokens: Sendable {
    /// A token, its holder, and how long it is valid.
    package struct Entry: Sendable {
        package let identity: AccessIdentity
        /// Time from which the token is no longer valid; nil if it is valid until it is removed.
        package let expires: Date?
        let digest: SHA256Digest

        package init(token: String, identity: AccessIdentity, expires: Date? = nil) {
            self.identity = identity
            self.expires = expires
            digest = AccessTokens.digest(token)
        }

        package func isValid(at date: Date) -> Bool { expires.map { date < $0 } ?? true }
    }

    private let entries: Mutex<[Entry]>

    package init(_ entries: [Entry]) { self.entries = Mutex(entries) }

    /// Replaces all tokens at once: each request is judged by the old ones or by the new ones.
    package func replace(with new: [Entry]) { entries.withLock { $0 = new } }

    /// The holder of a token; nil if it is unknown or has expired.
    ///
    /// Compares with all tokens, in a time that does not depend on the bytes of any.
    package func identity(of bearer: String, at date: Date) -> AccessIdentity? {
        identity(of: Self.digest(bearer), at: date)
    }

    /// Whether a token still has this holder at a later time. Keeps the digest of the token only.
    func validity(of bearer: String, as holder: AccessIdentity) -> @Sendable (Date) -> Bool {
        let digest = Self.digest(bearer)
        return { [self] date in
            // A token without a name is called by its place in the file, which changes with the lines before it.
            identity(of: digest, at: date).map { $0.scopes == holder.scopes && $0.owner == holder.owner } ?? false
        }
    }

    private func identity(of digest: SHA256Digest, at date: Date) -> AccessIdentity? {
        var found: Entry?
        for entry in entries.withLock({ $0 }) {
            // The comparison of digests is the one of swift-crypto, in constant time. No early exit: the time would
            // show the position of the token in the file.
            if entry.digest == digest { found = entry }
        }
        guard let found, found.isValid(at: date) else { return nil }
        return found.identity
    }

    /// The owner of the batches of a token. A name stays when the token is replaced; a position in the file does not,
    /// so that a token without a name is known by a part of its digest.
    static func owner(name: String?, token: String) -> String {
        if let name { return "name:\(name)" }
        return "sha256:" + Data(digest(token)).prefix(16).map { String(format: "%02x", $0) }.joined()
    }

    private static func digest(_ token: String) -> SHA256Digest { SHA256.hash(data: Data(token.utf8)) }
}

#if MEGATON_SANITIZE
    // As `Synchronization.Mutex`, for sanitizers.
    typealias Mutex = MegatonCore.Mutex
#endif
