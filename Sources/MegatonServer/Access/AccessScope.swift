internal import MegatonCore

/// A right that a token gives.
///
/// `admin` includes `read` and `submit`. `submit` does not include `read`: a program that only submits jobs has no need
/// to see those of others, and closes and cancels only batches that it owns.
package enum AccessScope: String, WordChoice {
    /// Batches, jobs, outcomes and metrics may be read.
    case read
    /// Jobs may be submitted, and the token's own batches closed and cancelled.
    case submit
    /// Everything is allowed, also changes of the queue, of dead jobs and of the cache.
    case admin

    /// Whether a token with this scope may do things that need another one.
    package func includes(_ needed: AccessScope) -> Bool { self == needed || self == .admin }
}

/// The holder of a token, as far as the server knows it.
package struct AccessIdentity: Sendable, Hashable {
    /// Name for logs, from the file of tokens; never a part of the token.
    package let name: String
    package let scopes: Set<AccessScope>
    /// The owner of batches that the holder makes, as their metadata has it; nil if they belong to the operator.
    package let owner: String?

    package init(name: String, scopes: Set<AccessScope>, owner: String? = nil) {
        self.name = name
        self.scopes = scopes
        self.owner = owner
    }

    /// Everyone, on a server that asks for no token.
    package static let open = AccessIdentity(name: "open", scopes: [.admin])

    package func allows(_ needed: AccessScope) -> Bool { scopes.contains { $0.includes(needed) } }
}
