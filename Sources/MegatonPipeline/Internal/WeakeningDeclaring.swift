/// What can be configured to be less safe than it is by default, and says so: a pipeline puts it into the log when it is
/// made.
protocol WeakeningDeclaring: Sendable {
    /// In words for people, without secrets; empty by default.
    var weakenings: [String] { get }
}
