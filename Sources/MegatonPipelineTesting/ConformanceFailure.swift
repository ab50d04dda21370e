/// Names the rule of a contract that a conformance breaks, and the observed behavior.
public struct ConformanceFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name of the check.
    public let check: String
    /// The rule that must hold.
    public let rule: String
    /// The observed behavior that breaks the rule.
    public let found: String

    public var description: String { "\(check): \(found) (the rule: \(rule))" }
}
