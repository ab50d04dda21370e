/// A configuration that can be less safe than by default, and reports that: a pipeline logs it when it is created.
package protocol SecurityRelaxationReporting: Sendable {
    /// Descriptions for people, without secrets; empty by default.
    var securityRelaxations: [String] { get }
}
