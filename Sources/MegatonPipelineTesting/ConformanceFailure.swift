/// Says which rule of a contract a conformance breaks, and how that was seen.
public struct ConformanceFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the check.
    public let check: String
    /// What must hold.
    public let rule: String
    /// What was found in its place.
    public let found: String

    public var description: String { "\(check): \(found) (the rule: \(rule))" }
}
