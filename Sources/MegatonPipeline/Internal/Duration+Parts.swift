extension Duration {
    /// Rounded down, for interfaces that take an integer; the largest integer where that is too small.
    public var wholeMilliseconds: Int {
        let (seconds, overflows) = Int(components.seconds).multipliedReportingOverflow(by: 1000)
        if overflows { return components.seconds < 0 ? .min : .max }
        return seconds + Int(components.attoseconds / 1_000_000_000_000_000)
    }

    /// As a fraction.
    public var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
