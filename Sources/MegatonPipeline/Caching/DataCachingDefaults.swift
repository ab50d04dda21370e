/// Isolates the no-op defaults of ``DataCaching``, which steers overload resolution: see there. No code ever waits for
/// this actor.
@globalActor public actor DataCachingDefaults {
    public static let shared = DataCachingDefaults()
}
