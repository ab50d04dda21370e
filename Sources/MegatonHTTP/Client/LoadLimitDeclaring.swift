/// A loader whose limits decide whether a load fails.
package protocol LoadLimitDeclaring: Sendable {
    /// Nil if they are unknown.
    var loadLimits: DataLoader.Configuration? { get }
}

extension DataLoader: LoadLimitDeclaring {
    package var loadLimits: DataLoader.Configuration? { configuration }
}
