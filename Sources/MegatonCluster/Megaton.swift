/// The program as a whole.
public enum Megaton {
    public static let version = "0.2.0"
}
