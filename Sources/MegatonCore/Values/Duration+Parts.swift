extension Duration {
    /// Milliseconds without their fraction, for interfaces that take an integer; clamped to the range of `Int`.
    package var wholeMilliseconds: Int {
        let (seconds, overflows) = Int(components.seconds).multipliedReportingOverflow(by: 1000)
        if overflows { return components.seconds < 0 ? .min : .max }
        return seconds + Int(components.attoseconds / 1_000_000_000_000_000)
    }

    /// Seconds with their fraction.
    package var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
