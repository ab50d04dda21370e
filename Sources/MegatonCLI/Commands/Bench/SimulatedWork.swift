import Foundation

/// How long pretended renders take: spread like real ones, most of them a little below the mean and a few far above
/// (log-normal).
struct SimulatedWork: Sendable {
    /// Milliseconds.
    let mean: Double

    /// The standard deviation of the logarithm: one in a hundred takes 2.8 times the mean or longer.
    private static let spread = 0.5
    /// No job takes more of the mean than that.
    private static let most = 10.0

    func next() -> Duration {
        // Box and Muller, 1958. Not zero, which has no logarithm.
        let (first, second) = (Double.random(in: 1e-12...1), Double.random(in: 0...1))
        let normal = (-2 * log(first)).squareRoot() * cos(2 * .pi * second)
        let factor = exp(Self.spread * normal - Self.spread * Self.spread / 2)
        return .seconds(mean / 1000 * min(factor, Self.most))
    }
}
